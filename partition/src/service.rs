//! The settings of a service as a whole: read, and replaced part by part.

use bytes::Bytes;
use contract::names::AccountName;
use contract::{Refusal, Service};
use engine::{Fault, PartitionId, Write};
use env::Timestamp;

use crate::execute::{Command, Moment, Reader, Shell};
use crate::key::{self, account};
use crate::record::service::{
    CorsRule, DeleteRetention, Logging, Metrics, ProtocolSettings, ServiceProperties, StaticWebsite,
};

const KEY: Bytes = Bytes::new();

async fn load(reader: &Reader<'_>) -> Result<ServiceProperties, Fault> {
    match reader.get(account::PROPERTIES, &KEY).await? {
        Some(record) => ServiceProperties::decode(&record.value),
        None => Ok(ServiceProperties::default()),
    }
}

/// As they are now; what was never set has its default.
pub async fn properties(shell: &Shell, account: &AccountName, service: Service) -> Result<ServiceProperties, Fault> {
    let view = shell.engine.view(&key::service_partition(account, service)).await?;
    load(&Reader::committed(view.as_ref())).await
}

/// What a request names is replaced, the rest stays.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Changes {
    pub logging: Option<Logging>,
    pub hour_metrics: Option<Metrics>,
    pub minute_metrics: Option<Metrics>,
    pub cors: Option<Vec<CorsRule>>,
    pub default_version: Option<String>,
    /// What is on or off as a whole is replaced by either.
    pub delete_retention: Option<Option<DeleteRetention>>,
    pub website: Option<Option<StaticWebsite>>,
    pub protocols: Option<ProtocolSettings>,
}

impl Changes {
    pub fn applied_to(&self, old: ServiceProperties) -> ServiceProperties {
        let changes = self.clone();
        ServiceProperties {
            logging: changes.logging.unwrap_or(old.logging),
            hour_metrics: changes.hour_metrics.unwrap_or(old.hour_metrics),
            minute_metrics: changes.minute_metrics.unwrap_or(old.minute_metrics),
            cors: changes.cors.unwrap_or(old.cors),
            default_version: changes.default_version.or(old.default_version),
            delete_retention: changes.delete_retention.unwrap_or(old.delete_retention),
            website: changes.website.unwrap_or(old.website),
            protocols: changes.protocols.unwrap_or(old.protocols),
        }
    }
}

pub struct SetServiceProperties {
    partition: PartitionId,
    changes: Changes,
}

impl SetServiceProperties {
    pub fn new(account: &AccountName, service: Service, changes: Changes) -> Self {
        SetServiceProperties { partition: key::service_partition(account, service), changes }
    }
}

impl Command for SetServiceProperties {
    type Records = ServiceProperties;
    type Outcome = ();

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        load(reader).await
    }

    fn check(&self, _properties: &Self::Records, _now: Timestamp) -> Result<(), Refusal> {
        Ok(())
    }

    fn decide(&self, properties: Self::Records, _moment: Moment) -> Result<(Vec<Write>, ()), Refusal> {
        let value = self.changes.applied_to(properties).encode();
        Ok((vec![Write::Put { family: account::PROPERTIES, key: KEY, value, slices: Vec::new() }], ()))
    }
}

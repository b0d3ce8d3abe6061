//! The built-in roles that a bearer token's principal may have, as data: what each grants, in the letters of an account SAS.

use crate::Service;
use crate::operations::{Letters, Operation, TokenNeeds};

/// One role. Names are those of the service, so that assignments can be carried over as they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Role {
    pub name: &'static str,
    /// The services it is about.
    pub services: &'static [Service],
    /// Permissions on the service itself, on containers (queues, tables, shares) and on what is in them.
    pub of_service: &'static str,
    pub of_container: &'static str,
    pub of_object: &'static str,
    pub acl: bool,
    pub delegates: bool,
}

const BLOB: &[Service] = &[Service::Blob];
const QUEUE: &[Service] = &[Service::Queue];
const TABLE: &[Service] = &[Service::Table];
const FILE: &[Service] = &[Service::File];

#[rustfmt::skip]
pub const ROLES: &[Role] = &[
    //   name                                             services             service  container  object          ACL    delegates
    role("Storage Account Contributor",                   &Service::ALL,       "rwl",   "rwdcl",   "",             false, true),
    role("Storage Blob Data Owner",                       BLOB,                "l",     "rwdclf",  "rwdxyactfi",   true,  true),
    role("Storage Blob Data Contributor",                 BLOB,                "l",     "rwdcl",   "rwdac",        false, true),
    role("Storage Blob Data Reader",                      BLOB,                "l",     "rl",      "r",            false, true),
    role("Storage Blob Delegator",                        BLOB,                "",      "",        "",             false, true),
    role("Storage Queue Data Contributor",                QUEUE,               "l",     "rwdc",    "raupd",        false, true),
    role("Storage Queue Data Reader",                     QUEUE,               "l",     "r",       "r",            false, true),
    role("Storage Queue Data Message Processor",          QUEUE,               "",      "",        "rp",           false, true),
    role("Storage Queue Data Message Sender",             QUEUE,               "",      "",        "a",            false, true),
    role("Storage Queue Delegator",                       QUEUE,               "",      "",        "",             false, true),
    role("Storage Table Data Contributor",                TABLE,               "",      "rwdcl",   "raud",         false, false),
    role("Storage Table Data Reader",                     TABLE,               "",      "rl",      "r",            false, false),
    role("Storage File Data Privileged Contributor",      FILE,                "",      "rl",      "rwdc",         false, true),
    role("Storage File Data Privileged Reader",           FILE,                "",      "rl",      "r",            false, true),
    role("Storage File Delegator",                        FILE,                "",      "",        "",             false, true),
];

const fn role(
    name: &'static str,
    services: &'static [Service],
    of_service: &'static str,
    of_container: &'static str,
    of_object: &'static str,
    acl: bool,
    delegates: bool,
) -> Role {
    Role { name, services, of_service, of_container, of_object, acl, delegates }
}

impl Role {
    pub fn named(name: &str) -> Option<&'static Role> {
        ROLES.iter().find(|role| role.name.eq_ignore_ascii_case(name))
    }

    /// Does it allow this operation? With `overwrite` asked for, does it allow that too?
    pub fn allows(&self, service: Service, row: &Operation, overwrite: bool) -> bool {
        if !self.services.contains(&service) {
            return false;
        }
        let needed = row.account_sas;
        match row.token {
            TokenNeeds::Acl => self.acl,
            TokenNeeds::Delegation => self.delegates,
            TokenNeeds::AsAccountSas if needed.letters == Letters::Whatever => true,
            TokenNeeds::AsAccountSas => needed.resource_types.chars().any(|kind| {
                let granted = match kind {
                    's' => self.of_service,
                    'c' => self.of_container,
                    _ => self.of_object,
                };
                if overwrite { needed.letters.allow_overwrite(granted) } else { needed.letters.allow(granted) }
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OperationId;

    #[track_caller]
    fn check(role: &str, allowed: &[OperationId], refused: &[OperationId]) {
        let role = Role::named(role).expect("a role");
        for (ids, expected) in [(allowed, true), (refused, false)] {
            for id in ids {
                let (service, row) = Service::ALL
                    .into_iter()
                    .flat_map(|service| service.rows().iter().map(move |row| (service, row)))
                    .find(|(_, row)| row.id == *id)
                    .expect("a row");
                assert_eq!(role.allows(service, row, false), expected, "{} {id:?}", role.name);
            }
        }
    }

    #[test]
    fn what_roles_grant() {
        use OperationId::*;
        check(
            "Storage Blob Data Reader",
            &[
                ListContainers,
                ListBlobs,
                GetBlob,
                GetContainerProperties,
                GetBlobUserDelegationKey,
                GetAccountInformation,
            ],
            &[
                PutBlockBlob,
                DeleteBlob,
                CreateContainer,
                GetContainerAcl,
                SetBlobServiceProperties,
                GetBlobTags,
                PeekMessages,
            ],
        );
        check(
            "storage blob data contributor",
            &[PutBlockBlob, DeleteBlob, CreateContainer, DeleteContainer, AppendBlock],
            &[SetContainerAcl, GetContainerAcl, SetBlobTags, SetBlobServiceProperties, SetBlobLegalHold, CreateQueue],
        );
        check(
            "Storage Blob Data Owner",
            &[SetContainerAcl, SetBlobTags, SetBlobLegalHold, FindBlobsByTags],
            &[SetBlobServiceProperties],
        );
        check("Storage Blob Delegator", &[GetBlobUserDelegationKey], &[GetBlob, ListContainers]);
        check(
            "Storage Queue Data Message Processor",
            &[GetMessages, PeekMessages, DeleteMessage],
            &[PutMessage, CreateQueue, GetBlob],
        );
        check("Storage Queue Data Message Sender", &[PutMessage], &[GetMessages, PeekMessages]);
        check("Storage Table Data Reader", &[QueryTables], &[CreateTable, DeleteEntity]);
        check(
            "Storage Account Contributor",
            &[SetBlobServiceProperties, SetQueueServiceProperties, CreateContainer],
            &[GetBlob, SetContainerAcl],
        );
        assert_eq!(Role::named("Owner"), None);
    }
}

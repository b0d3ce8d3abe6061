//! What the four services share: properties, statistics, account information, preflight, and keys to delegate with.

pub mod delegation;
pub mod properties;

use contract::operations::Operation;
use contract::{Refusal, Service};
use env::Timestamp;
use partition::Failure;

use crate::app::App;
use crate::body::receive;
use crate::cors;
use crate::request::Request;
use crate::respond::document;
use crate::wire::{Body, Response};
use crate::xml::XmlWriter;

pub async fn get_properties(app: &App, request: &Request<'_>, row: &Operation) -> Result<Response, Failure> {
    let properties = partition::service::properties(&app.shell, &request.account.name, request.service).await?;
    Ok(document(request, row, properties::render(request.service, &properties)))
}

pub async fn set_properties(
    app: &App,
    request: &Request<'_>,
    row: &Operation,
    body: &mut Body<'_>,
) -> Result<Response, Failure> {
    let changes = properties::parse(request.service, &receive(body).await?)?;
    if matches!(changes.website, Some(Some(_))) {
        // Before, so that a website is never on without its container.
        partition::blob::container::ensure_web(&app.shell, &request.account.name).await?;
    }
    let command = partition::service::SetServiceProperties::new(&request.account.name, request.service, changes);
    if let Err(failure) = app.shell.execute(&command).await {
        // It may not be known whether they changed. Then others find it out when what they have has run out.
        app.settings.forget();
        return Err(failure);
    }
    app.settings.announce().await;
    Ok(Response::new(row.status))
}

/// The secondary is this server under another name, so it lags behind by nothing.
pub fn stats(request: &Request<'_>, row: &Operation) -> Result<Response, Refusal> {
    if !request.address.secondary {
        return Err(Refusal::bad_query("comp", "stats", "Statistics are told by the secondary endpoint alone."));
    }
    let mut xml = XmlWriter::new();
    xml.open("StorageServiceStats").open("GeoReplication");
    xml.element("Status", "live").element("LastSyncTime", &Timestamp::http_date(request.now));
    xml.close("GeoReplication").close("StorageServiceStats");
    Ok(document(request, row, xml.finish()))
}

pub fn account_information(row: &Operation) -> Response {
    let mut response = Response::new(row.status);
    response.header("x-ms-sku-name", "Standard_LRS").header("x-ms-account-kind", "StorageV2");
    response.header("x-ms-is-hns-enabled", "false");
    response
}

pub fn preflight(request: &Request<'_>, row: &Operation) -> Result<Response, Refusal> {
    let headers = cors::preflight(
        &request.settings.cors,
        request.header("origin"),
        request.header("access-control-request-method"),
        request.header("access-control-request-headers").unwrap_or_default(),
    )?;
    let mut response = Response::new(row.status);
    for (name, value) in headers {
        response.header(name, value);
    }
    Ok(response)
}

/// The root elements that a service's properties may have.
fn elements(service: Service) -> &'static [&'static str] {
    match service {
        Service::Blob => &[
            "Logging",
            "HourMetrics",
            "MinuteMetrics",
            "Cors",
            "DeleteRetentionPolicy",
            "StaticWebsite",
            "DefaultServiceVersion",
        ],
        Service::Queue | Service::Table => &["Logging", "HourMetrics", "MinuteMetrics", "Cors"],
        Service::File => &["HourMetrics", "MinuteMetrics", "Cors", "ProtocolSettings"],
    }
}

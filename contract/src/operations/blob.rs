//! The rows of the Blob service. Facts: the service's REST reference; the promises B4, B5, B8 and B9 are these columns.

use super::Access::{Read, Write};
use super::Conditions::{Never, OnCreate, OnRead, OnWrite};
use super::LeaseCheck::{IfGiven, IfLeased, Ignored};
use super::Method::{Delete, Get, Head, Put};
use super::OperationId::*;
use super::Resource::{Account, Blob, Container};
use super::{
    Access, AccountSas, Conditions, HeaderTest, LeaseCheck, Method, Operation, OperationId, Resource, ReturnsEtag,
    Selector, ServiceSas,
};
use crate::limits::PUT_BLOB_BYTES_MAX;

const ETAG: ReturnsEtag = ReturnsEtag::Yes;
const NO_ETAG: ReturnsEtag = ReturnsEtag::No;

#[rustfmt::skip]
pub const BLOB: &[Operation] = &[
    //  id                      method        on         chosen by                          ok   etag     conditions lease     account SAS     service SAS access body
    row(ListContainers,         &[Get],       Account,   comp("list"),                      200, NO_ETAG, Never,     Ignored,  sas('s', "l"),  None,       Read,  0),
    row(CreateContainer,        &[Put],       Container, restype("container"),              201, ETAG,    Never,     Ignored,  sas('c', "cw"), None,       Write, 0),
    row(GetContainerProperties, &[Get, Head], Container, restype("container"),              200, ETAG,    Never,     IfGiven,  sas('c', "r"),  None,       Read,  0),
    row(GetContainerMetadata,   &[Get, Head], Container, restype_comp("container", "metadata"), 200, ETAG, Never,    IfGiven,  sas('c', "r"),  None,       Read,  0),
    row(SetContainerMetadata,   &[Put],       Container, restype_comp("container", "metadata"), 200, ETAG, OnWrite,  IfGiven,  sas('c', "w"),  None,       Write, 0),
    row(DeleteContainer,        &[Delete],    Container, restype("container"),              202, NO_ETAG, OnWrite,   IfLeased, sas('c', "d"),  None,       Write, 0),
    row(ListBlobs,              &[Get],       Container, restype_comp("container", "list"), 200, NO_ETAG, Never,     IfGiven,  sas('c', "l"),  Some("l"),  Read,  0),
    row(PutBlockBlob,           &[Put],       Blob,      blob_type("BlockBlob"),            201, ETAG,    OnCreate,  IfLeased, sas('o', "cw"), Some("cw"), Write, PUT_BLOB_BYTES_MAX),
    row(GetBlob,                &[Get],       Blob,      plain(),                           200, ETAG,    OnRead,    IfGiven,  sas('o', "r"),  Some("r"),  Read,  0),
    row(GetBlobProperties,      &[Head],      Blob,      plain(),                           200, ETAG,    OnRead,    IfGiven,  sas('o', "r"),  Some("r"),  Read,  0),
    row(DeleteBlob,             &[Delete],    Blob,      plain(),                           202, NO_ETAG, OnWrite,   IfLeased, sas('o', "d"),  Some("d"),  Write, 0),
];

#[allow(clippy::too_many_arguments)] // the columns
const fn row(
    id: OperationId,
    methods: &'static [Method],
    on: Resource,
    chosen_by: Selector,
    status: u16,
    etag: ReturnsEtag,
    conditions: Conditions,
    lease: LeaseCheck,
    account_sas: AccountSas,
    service_sas: ServiceSas,
    access: Access,
    body_bytes_max: u64,
) -> Operation {
    Operation {
        id,
        methods,
        on,
        chosen_by,
        status,
        etag,
        conditions,
        lease,
        account_sas,
        service_sas,
        access,
        body_bytes_max,
    }
}

const fn plain() -> Selector {
    Selector { restype: None, comp: None, header: HeaderTest::Any }
}

const fn comp(comp: &'static str) -> Selector {
    Selector { comp: Some(comp), ..plain() }
}

const fn restype(restype: &'static str) -> Selector {
    Selector { restype: Some(restype), ..plain() }
}

const fn restype_comp(restype: &'static str, comp: &'static str) -> Selector {
    Selector { restype: Some(restype), comp: Some(comp), ..plain() }
}

const fn blob_type(value: &'static str) -> Selector {
    Selector { header: HeaderTest::Is("x-ms-blob-type", value), ..plain() }
}

const fn sas(resource_type: char, any_of: &'static str) -> AccountSas {
    AccountSas { resource_type, any_of }
}

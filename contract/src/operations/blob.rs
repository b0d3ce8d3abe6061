//! The rows of the Blob service. Facts: the service's REST reference; the promises B4, B5, B8 and B9 are these columns.

use super::Anonymous::{Always, OfPublicBlobs, OfPublicContainer};
use super::Conditions::{Never, OnCreate, OnRead, OnTags, OnTagsOrBlob, OnWrite};
use super::Effect::{Alters, Deletes, Leases, Marks, Reads, Replaces, Snapshots, Stages};
use super::LeaseCheck::{Acts, IfGiven, IfLeased, Ignored};
use super::Letters::{AnyOf, AnyOfOrCreate, Never as NoSas, Whatever};
use super::Method::{Delete, Get, Head, Options, Post, Put};
use super::OperationId::*;
use super::Resource::{Account, Anything, Blob, Container};
use super::ReturnsEtag::{IfCommitted, No, Yes};
use super::Test::{HeaderIs, HeaderNotSent, HeaderSent, QueryNotSent, QuerySent};
use super::TokenNeeds::{Acl, Delegation};
use super::{NO_SAS, Operation, account, comp, plain, restype, restype_comp};
use crate::limits::{
    APPEND_BLOCK_BYTES_MAX, BATCH_BYTES_MAX, BLOCK_BYTES_MAX, BLOCK_LIST_BYTES_MAX, PUT_BLOB_BYTES_MAX,
    PUT_PAGES_BYTES_MAX, QUERY_BYTES_MAX, XML_BYTES_MAX,
};

const SOURCE: &str = "x-ms-copy-source";
const TYPE: &str = "x-ms-blob-type";
const ACTION: &str = "x-ms-lease-action";
const WRITE: &str = "x-ms-page-write";
const SYNC: &str = "x-ms-requires-sync";
const PREVIOUS_URL: &str = "x-ms-previous-snapshot-url";

#[rustfmt::skip]
pub const BLOB: &[Operation] = &[
    //             id                               method        on         chosen by                                           ok   etag conditions lease     account SAS                         service SAS  published
    Operation::row(PreflightBlob,                   &[Options],   Anything,  plain(),                                            200, No,  Never,     Ignored,  NO_SAS,                             NoSas,       &[]).anonymous(Always).built(),
    Operation::row(SetBlobServiceProperties,        &[Put],       Account,   restype_comp("service", "properties"),              202, No,  Never,     Ignored,  account("s", AnyOf("w")),           NoSas,       &["Service_SetProperties"]).body(XML_BYTES_MAX).built(),
    Operation::row(GetBlobServiceProperties,        &[Get],       Account,   restype_comp("service", "properties"),              200, No,  Never,     Ignored,  account("s", AnyOf("r")),           NoSas,       &["Service_GetProperties"]).built(),
    Operation::row(GetBlobServiceStats,             &[Get],       Account,   restype_comp("service", "stats"),                   200, No,  Never,     Ignored,  account("s", AnyOf("r")),           NoSas,       &["Service_GetStatistics"]).built(),
    Operation::row(GetBlobUserDelegationKey,        &[Post],      Account,   restype_comp("service", "userdelegationkey"),       200, No,  Never,     Ignored,  NO_SAS,                             NoSas,       &["Service_GetUserDelegationKey"]).body(XML_BYTES_MAX).reads().token(Delegation).built(),
    Operation::row(GetAccountInformation,           &[Get, Head], Account,   restype_comp("account", "properties"),              200, No,  Never,     Ignored,  account("sco", Whatever),           Whatever,    &["Service_GetAccountInfo"]).built(),
    Operation::row(GetContainerAccountInformation,  &[Get, Head], Container, restype_comp("account", "properties"),              200, No,  Never,     Ignored,  account("sco", Whatever),           Whatever,    &["Container_GetAccountInfo"]).built(),
    Operation::row(GetBlobAccountInformation,       &[Get, Head], Blob,      restype_comp("account", "properties"),              200, No,  Never,     Ignored,  account("sco", Whatever),           Whatever,    &["Blob_GetAccountInfo"]).built(),
    Operation::row(SubmitBatch,                     &[Post],      Account,   comp("batch"),                                      202, No,  Never,     Ignored,  account("sco", Whatever),           NoSas,       &["Service_SubmitBatch"]).body(BATCH_BYTES_MAX).built(),
    Operation::row(FindBlobsByTags,                 &[Get],       Account,   comp("blobs"),                                      200, No,  Never,     Ignored,  account("o", AnyOf("f")),           NoSas,       &["Service_FilterBlobs"]).built(),
    Operation::row(ListContainers,                  &[Get],       Account,   comp("list"),                                       200, No,  Never,     Ignored,  account("s", AnyOf("l")),           NoSas,       &["Service_ListContainersSegment"]).built(),

    Operation::row(CreateContainer,                 &[Put],       Container, restype("container"),                               201, Yes, Never,     Ignored,  account("c", AnyOf("cw")),          NoSas,       &["Container_Create"]).built(),
    Operation::row(GetContainerProperties,          &[Get, Head], Container, restype("container"),                               200, Yes, Never,     IfGiven,  account("c", AnyOf("r")),           NoSas,       &["Container_GetProperties"]).anonymous(OfPublicContainer).built(),
    Operation::row(GetContainerMetadata,            &[Get, Head], Container, restype_comp("container", "metadata"),              200, Yes, Never,     IfGiven,  account("c", AnyOf("r")),           NoSas,       &[]).anonymous(OfPublicContainer).built(),
    Operation::row(SetContainerMetadata,            &[Put],       Container, restype_comp("container", "metadata"),              200, Yes, OnWrite,   IfGiven,  account("c", AnyOf("w")),           NoSas,       &["Container_SetMetadata"]).built(),
    Operation::row(GetContainerAcl,                 &[Get, Head], Container, restype_comp("container", "acl"),                   200, Yes, Never,     IfGiven,  NO_SAS,                             NoSas,       &["Container_GetAccessPolicy"]).built().token(Acl),
    Operation::row(SetContainerAcl,                 &[Put],       Container, restype_comp("container", "acl"),                   200, Yes, OnWrite,   IfGiven,  NO_SAS,                             NoSas,       &["Container_SetAccessPolicy"]).body(XML_BYTES_MAX).built().token(Acl),
    Operation::row(AcquireContainerLease,           &[Put],       Container, restype_comp("container", "lease").when(&[HeaderIs(ACTION, "acquire")]), 201, Yes, OnWrite, Acts, account("c", AnyOf("w")),    NoSas,       &["Container_AcquireLease"]).built(),
    Operation::row(RenewContainerLease,             &[Put],       Container, restype_comp("container", "lease").when(&[HeaderIs(ACTION, "renew")]),   200, Yes, OnWrite, Acts, account("c", AnyOf("w")),    NoSas,       &["Container_RenewLease"]).built(),
    Operation::row(ChangeContainerLease,            &[Put],       Container, restype_comp("container", "lease").when(&[HeaderIs(ACTION, "change")]),  200, Yes, OnWrite, Acts, account("c", AnyOf("w")),    NoSas,       &["Container_ChangeLease"]).built(),
    Operation::row(ReleaseContainerLease,           &[Put],       Container, restype_comp("container", "lease").when(&[HeaderIs(ACTION, "release")]), 200, Yes, OnWrite, Acts, account("c", AnyOf("w")),    NoSas,       &["Container_ReleaseLease"]).built(),
    Operation::row(BreakContainerLease,             &[Put],       Container, restype_comp("container", "lease").when(&[HeaderIs(ACTION, "break")]),   202, Yes, OnWrite, Acts, account("c", AnyOf("wd")),   NoSas,       &["Container_BreakLease"]).built(),
    Operation::row(DeleteContainer,                 &[Delete],    Container, restype("container"),                               202, No,  OnWrite,   IfLeased, account("c", AnyOf("d")),           NoSas,       &["Container_Delete"]).built(),
    Operation::row(RestoreContainer,                &[Put],       Container, restype_comp("container", "undelete"),              201, No,  Never,     Ignored,  account("c", AnyOf("w")),           NoSas,       &["Container_Restore"]).built(),
    Operation::row(RenameContainer,                 &[Put],       Container, restype_comp("container", "rename"),                200, No,  Never,     Ignored,  account("c", AnyOf("w")),           NoSas,       &["Container_Rename"]),
    Operation::row(ListBlobs,                       &[Get],       Container, restype_comp("container", "list"),                  200, No,  Never,     IfGiven,  account("c", AnyOf("l")),           AnyOf("l"),  &["Container_ListBlobFlatSegment", "Container_ListBlobHierarchySegment"]).anonymous(OfPublicContainer).built(),
    Operation::row(FindBlobsByTagsInContainer,      &[Get],       Container, restype_comp("container", "blobs"),                 200, No,  Never,     Ignored,  account("c", AnyOf("f")),           AnyOf("f"),  &["Container_FilterBlobs"]).built(),
    Operation::row(SubmitContainerBatch,            &[Post],      Container, restype_comp("container", "batch"),                 202, No,  Never,     Ignored,  account("sco", Whatever),           Whatever,    &["Container_SubmitBatch"]).body(BATCH_BYTES_MAX).built(),

    Operation::row(PutBlockBlob,                    &[Put],       Blob,      plain().when(&[HeaderIs(TYPE, "BlockBlob"), HeaderNotSent(SOURCE)]),  201, Yes, OnCreate, IfLeased, account("o", AnyOfOrCreate("w")), AnyOfOrCreate("w"), &["BlockBlob_Upload"]).does(Replaces).body(PUT_BLOB_BYTES_MAX).built(),
    Operation::row(PutBlobFromUrl,                  &[Put],       Blob,      plain().when(&[HeaderIs(TYPE, "BlockBlob"), HeaderSent(SOURCE)]),     201, Yes, OnCreate, IfLeased, account("o", AnyOfOrCreate("w")), AnyOfOrCreate("w"), &["BlockBlob_PutBlobFromUrl"]).does(Replaces).built(),
    Operation::row(PutAppendBlob,                   &[Put],       Blob,      plain().when(&[HeaderIs(TYPE, "AppendBlob")]),      201, Yes, OnCreate,  IfLeased, account("o", AnyOfOrCreate("w")),   AnyOfOrCreate("w"), &["AppendBlob_Create"]).does(Replaces).built(),
    Operation::row(PutPageBlob,                     &[Put],       Blob,      plain().when(&[HeaderIs(TYPE, "PageBlob")]),        201, Yes, OnCreate,  IfLeased, account("o", AnyOfOrCreate("w")),   AnyOfOrCreate("w"), &["PageBlob_Create"]).does(Replaces).built(),
    Operation::row(CopyBlob,                        &[Put],       Blob,      plain().when(&[HeaderNotSent(TYPE), HeaderSent(SOURCE), HeaderNotSent(SYNC)]),     202, Yes, OnCreate, IfLeased, account("o", AnyOfOrCreate("w")), AnyOfOrCreate("w"), &["Blob_StartCopyFromURL"]).does(Replaces).built(),
    Operation::row(CopyBlobFromUrl,                 &[Put],       Blob,      plain().when(&[HeaderNotSent(TYPE), HeaderSent(SOURCE), HeaderIs(SYNC, "true")]),  202, Yes, OnCreate, IfLeased, account("o", AnyOfOrCreate("w")), AnyOfOrCreate("w"), &["Blob_CopyFromURL"]).does(Replaces).built(),
    Operation::row(AbortCopyBlob,                   &[Put],       Blob,      comp("copy"),                                       204, No,  Never,     IfLeased, account("o", AnyOf("w")),           AnyOf("w"),  &["Blob_AbortCopyFromURL"]).built(),
    Operation::row(IncrementalCopyBlob,             &[Put],       Blob,      comp("incrementalcopy"),                            202, Yes, OnCreate,  Ignored,  account("o", AnyOfOrCreate("w")),   AnyOfOrCreate("w"), &["PageBlob_CopyIncremental"]).does(Replaces).built(),
    Operation::row(GetBlob,                         &[Get],       Blob,      plain(),                                            200, Yes, OnRead,    IfGiven,  account("o", AnyOf("r")),           AnyOf("r"),  &["Blob_Download"]).does(Reads).anonymous(OfPublicBlobs).built(),
    Operation::row(GetBlobProperties,               &[Head],      Blob,      plain(),                                            200, Yes, OnRead,    IfGiven,  account("o", AnyOf("r")),           AnyOf("re"), &["Blob_GetProperties"]).anonymous(OfPublicBlobs).built(),
    Operation::row(GetBlobMetadata,                 &[Get, Head], Blob,      comp("metadata"),                                   200, Yes, OnRead,    IfGiven,  account("o", AnyOf("r")),           AnyOf("re"), &[]).anonymous(OfPublicBlobs).built(),
    Operation::row(SetBlobMetadata,                 &[Put],       Blob,      comp("metadata"),                                   200, Yes, OnWrite,   IfLeased, account("o", AnyOf("w")),           AnyOf("w"),  &["Blob_SetMetadata"]).does(Replaces).built(),
    Operation::row(SetBlobProperties,               &[Put],       Blob,      comp("properties"),                                 200, Yes, OnWrite,   IfLeased, account("o", AnyOf("w")),           AnyOf("w"),  &["Blob_SetHTTPHeaders", "PageBlob_Resize", "PageBlob_UpdateSequenceNumber"]).does(Alters).built(),
    Operation::row(DeleteBlob,                      &[Delete],    Blob,      plain(),                                            202, No,  OnWrite,   IfLeased, account("o", AnyOf("d")),           AnyOf("d"),  &["Blob_Delete"]).does(Deletes).built(),
    Operation::row(UndeleteBlob,                    &[Put],       Blob,      comp("undelete"),                                   200, No,  Never,     Ignored,  account("o", AnyOf("w")),           AnyOf("w"),  &["Blob_Undelete"]).built(),
    Operation::row(SnapshotBlob,                    &[Put],       Blob,      comp("snapshot"),                                   201, Yes, OnWrite,   IfGiven,  account("o", AnyOf("cw")),          AnyOf("cw"), &["Blob_CreateSnapshot"]).does(Snapshots).built(),
    Operation::row(SetBlobTier,                     &[Put],       Blob,      comp("tier"),                                       200, No,  OnTags,    IfGiven,  account("o", AnyOf("w")),           AnyOf("w"),  &["Blob_SetTier"]).does(Marks).built(),
    Operation::row(GetBlobTags,                     &[Get],       Blob,      comp("tags"),                                       200, No,  OnTagsOrBlob, IfGiven,  account("o", AnyOf("t")),           AnyOf("t"),  &["Blob_GetTags"]).built(),
    Operation::row(SetBlobTags,                     &[Put],       Blob,      comp("tags"),                                       204, No,  OnTagsOrBlob, IfLeased, account("o", AnyOf("t")),           AnyOf("t"),  &["Blob_SetTags"]).does(Marks).body(XML_BYTES_MAX).built(),
    Operation::row(SetBlobImmutabilityPolicy,       &[Put],       Blob,      comp("immutabilityPolicies"),                       200, No,  OnWrite,   Ignored,  account("o", AnyOf("i")),           AnyOf("i"),  &["Blob_SetImmutabilityPolicy"]).without_tags().does(Marks).built(),
    Operation::row(DeleteBlobImmutabilityPolicy,    &[Delete],    Blob,      comp("immutabilityPolicies"),                       200, No,  Never,     Ignored,  account("o", AnyOf("i")),           AnyOf("i"),  &["Blob_DeleteImmutabilityPolicy"]).does(Marks).built(),
    Operation::row(SetBlobLegalHold,                &[Put],       Blob,      comp("legalhold"),                                  200, No,  Never,     Ignored,  account("o", AnyOf("i")),           AnyOf("i"),  &["Blob_SetLegalHold"]).does(Marks).built(),
    Operation::row(SetBlobExpiry,                   &[Put],       Blob,      comp("expiry"),                                     200, Yes, Never,     IfLeased, account("o", AnyOf("w")),           AnyOf("w"),  &["Blob_SetExpiry"]).does(Alters).built(),
    Operation::row(AcquireBlobLease,                &[Put],       Blob,      comp("lease").when(&[HeaderIs(ACTION, "acquire")]), 201, Yes, OnWrite,   Acts,     account("o", AnyOf("w")),           AnyOf("w"),  &["Blob_AcquireLease"]).does(Leases).built(),
    Operation::row(RenewBlobLease,                  &[Put],       Blob,      comp("lease").when(&[HeaderIs(ACTION, "renew")]),   200, Yes, OnWrite,   Acts,     account("o", AnyOf("w")),           AnyOf("w"),  &["Blob_RenewLease"]).does(Leases).built(),
    Operation::row(ChangeBlobLease,                 &[Put],       Blob,      comp("lease").when(&[HeaderIs(ACTION, "change")]),  200, Yes, OnWrite,   Acts,     account("o", AnyOf("w")),           AnyOf("w"),  &["Blob_ChangeLease"]).does(Leases).built(),
    Operation::row(ReleaseBlobLease,                &[Put],       Blob,      comp("lease").when(&[HeaderIs(ACTION, "release")]), 200, Yes, OnWrite,   Acts,     account("o", AnyOf("w")),           AnyOf("w"),  &["Blob_ReleaseLease"]).does(Leases).built(),
    Operation::row(BreakBlobLease,                  &[Put],       Blob,      comp("lease").when(&[HeaderIs(ACTION, "break")]),   202, Yes, OnWrite,   Acts,     account("o", AnyOf("wd")),          AnyOf("wd"), &["Blob_BreakLease"]).does(Leases).built(),
    Operation::row(PutBlock,                        &[Put],       Blob,      comp("block").when(&[HeaderNotSent(SOURCE)]),       201, No,  Never,     IfLeased, account("o", AnyOfOrCreate("w")),   AnyOfOrCreate("w"), &["BlockBlob_StageBlock"]).does(Stages).body(BLOCK_BYTES_MAX).built(),
    Operation::row(PutBlockFromUrl,                 &[Put],       Blob,      comp("block").when(&[HeaderSent(SOURCE)]),          201, No,  Never,     IfLeased, account("o", AnyOfOrCreate("w")),   AnyOfOrCreate("w"), &["BlockBlob_StageBlockFromURL"]).does(Stages).built(),
    Operation::row(PutBlockList,                    &[Put],       Blob,      comp("blocklist"),                                  201, Yes, OnCreate,  IfLeased, account("o", AnyOfOrCreate("w")),   AnyOfOrCreate("w"), &["BlockBlob_CommitBlockList"]).does(Replaces).body(BLOCK_LIST_BYTES_MAX).built(),
    Operation::row(GetBlockList,                    &[Get],       Blob,      comp("blocklist"),                                  200, IfCommitted, OnTags, IfGiven, account("o", AnyOf("r")),       AnyOf("r"),  &["BlockBlob_GetBlockList"]).anonymous(OfPublicBlobs).built(),
    Operation::row(QueryBlob,                       &[Post],      Blob,      comp("query"),                                      200, Yes, OnRead,    IfGiven,  account("o", AnyOf("r")),           AnyOf("r"),  &["Blob_Query"]).does(Reads).body(QUERY_BYTES_MAX).reads(),
    Operation::row(AppendBlock,                     &[Put],       Blob,      comp("appendblock").when(&[HeaderNotSent(SOURCE)]), 201, Yes, OnWrite,   IfLeased, account("o", AnyOf("aw")),          AnyOf("aw"), &["AppendBlob_AppendBlock"]).does(Alters).body(APPEND_BLOCK_BYTES_MAX).built(),
    Operation::row(AppendBlockFromUrl,              &[Put],       Blob,      comp("appendblock").when(&[HeaderSent(SOURCE)]),    201, Yes, OnWrite,   IfLeased, account("o", AnyOf("aw")),          AnyOf("aw"), &["AppendBlob_AppendBlockFromUrl"]).does(Alters).built(),
    Operation::row(SealAppendBlob,                  &[Put],       Blob,      comp("seal"),                                       200, Yes, OnWrite,   IfLeased, account("o", AnyOf("w")),           AnyOf("w"),  &["AppendBlob_Seal"]).without_tags().does(Alters).built(),
    Operation::row(PutPages,                        &[Put],       Blob,      comp("page").when(&[HeaderIs(WRITE, "update"), HeaderNotSent(SOURCE)]), 201, Yes, OnWrite, IfLeased, account("o", AnyOf("w")), AnyOf("w"), &["PageBlob_UploadPages"]).does(Alters).body(PUT_PAGES_BYTES_MAX).built(),
    Operation::row(PutPagesFromUrl,                 &[Put],       Blob,      comp("page").when(&[HeaderIs(WRITE, "update"), HeaderSent(SOURCE)]),    201, Yes, OnWrite, IfLeased, account("o", AnyOf("w")), AnyOf("w"), &["PageBlob_UploadPagesFromURL"]).does(Alters).built(),
    Operation::row(ClearPages,                      &[Put],       Blob,      comp("page").when(&[HeaderIs(WRITE, "clear")]),     201, Yes, OnWrite,   IfLeased, account("o", AnyOf("w")),           AnyOf("w"),  &["PageBlob_ClearPages"]).does(Alters).built(),
    Operation::row(GetPageRanges,                   &[Get],       Blob,      comp("pagelist").when(&[QueryNotSent("prevsnapshot"), HeaderNotSent(PREVIOUS_URL)]), 200, Yes, OnRead, IfGiven, account("o", AnyOf("r")), AnyOf("r"), &["PageBlob_GetPageRanges"]).does(Reads).anonymous(OfPublicBlobs).built(),
    Operation::row(GetPageRangesDiff,               &[Get],       Blob,      comp("pagelist").when(&[QuerySent("prevsnapshot")]), 200, Yes, OnRead,   IfGiven,  account("o", AnyOf("r")),           AnyOf("r"),  &["PageBlob_GetPageRangesDiff"]).does(Reads).anonymous(OfPublicBlobs).built(),
    Operation::row(GetPageRangesDiffByUrl,          &[Get],       Blob,      comp("pagelist").when(&[QueryNotSent("prevsnapshot"), HeaderSent(PREVIOUS_URL)]),  200, Yes, OnRead, IfGiven, account("o", AnyOf("r")), AnyOf("r"), &["PageBlob_GetPageRangesDiff"]).does(Reads).anonymous(OfPublicBlobs).built(),
];

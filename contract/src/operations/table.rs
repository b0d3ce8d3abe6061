//! The rows of the Table service. What its published description leaves out (MERGE, transactions, one table) is from the reference.

use super::Anonymous::Always;
use super::Conditions::{IfMatchRequired, Never};
use super::LeaseCheck::Ignored;
use super::Letters::{AllOf, AnyOf, Never as NoSas, Whatever};
use super::Method::{Delete, Get, Head, Merge, Options, Patch, Post, Put};
use super::OperationId::*;
use super::Resource::{Account, Anything, Entities, Entity, Table, TableBatch, Tables};
use super::ReturnsEtag::{No, Yes};
use super::Test::{HeaderNotSent, HeaderSent};
use super::TokenNeeds::Acl;
use super::{NO_SAS, Operation, account, comp, plain, restype_comp};
use crate::limits::{TABLE_BATCH_BYTES_MAX, TABLE_ENTITY_BODY_BYTES_MAX, XML_BYTES_MAX};

const IF_MATCH: &str = "If-Match";

#[rustfmt::skip]
pub const TABLE: &[Operation] = &[
    //             id                         method          on          chosen by                                ok   etag conditions     lease  account SAS                 service SAS  published
    Operation::row(PreflightTable,            &[Options],       Anything,   plain(),                                 200, No,  Never,         Ignored, NO_SAS,                    NoSas,       &[]).anonymous(Always).built(),
    Operation::row(SetTableServiceProperties, &[Put],           Account,    restype_comp("service", "properties"),   202, No,  Never,         Ignored, account("s", AnyOf("w")),  NoSas,       &["Service_SetProperties"]).body(XML_BYTES_MAX).built(),
    Operation::row(GetTableServiceProperties, &[Get],           Account,    restype_comp("service", "properties"),   200, No,  Never,         Ignored, account("s", AnyOf("r")),  NoSas,       &["Service_GetProperties"]).built(),
    Operation::row(GetTableServiceStats,      &[Get],           Account,    restype_comp("service", "stats"),        200, No,  Never,         Ignored, account("s", AnyOf("r")),  NoSas,       &["Service_GetStatistics"]).built(),
    Operation::row(QueryTables,               &[Get],           Tables,     plain(),                                 200, No,  Never,         Ignored, account("c", AnyOf("l")),  NoSas,       &["Table_Query"]).built(),
    Operation::row(CreateTable,               &[Post],          Tables,     plain(),                                 201, No,  Never,         Ignored, account("c", AnyOf("cw")), NoSas,       &["Table_Create"]).body(XML_BYTES_MAX).built(),
    Operation::row(GetTable,                  &[Get],           Table,      plain(),                                 200, No,  Never,         Ignored, account("c", AnyOf("l")),  NoSas,       &[]).built(),
    Operation::row(DeleteTable,               &[Delete],        Table,      plain(),                                 204, No,  Never,         Ignored, account("c", AnyOf("d")),  NoSas,       &["Table_Delete"]).built(),
    Operation::row(GetTableAcl,               &[Get, Head],     Entities,   comp("acl"),                             200, No,  Never,         Ignored, NO_SAS,                    NoSas,       &["Table_GetAccessPolicy"]).token(Acl).built(),
    Operation::row(SetTableAcl,               &[Put],           Entities,   comp("acl"),                             204, No,  Never,         Ignored, NO_SAS,                    NoSas,       &["Table_SetAccessPolicy"]).body(XML_BYTES_MAX).token(Acl).built(),
    Operation::row(QueryEntities,             &[Get],           Entities,   plain(),                                 200, No,  Never,         Ignored, account("o", AnyOf("r")),  AnyOf("r"),  &["Table_QueryEntities"]).built(),
    Operation::row(InsertEntity,              &[Post],          Entities,   plain(),                                 201, Yes, Never,         Ignored, account("o", AnyOf("a")),  AnyOf("a"),  &["Table_InsertEntity"]).body(TABLE_ENTITY_BODY_BYTES_MAX).built(),
    Operation::row(GetEntity,                 &[Get],           Entity,     plain(),                                 200, Yes, Never,         Ignored, account("o", AnyOf("r")),  AnyOf("r"),  &["Table_QueryEntityWithPartitionAndRowKey"]).built(),
    Operation::row(UpdateEntity,              &[Put],           Entity,     plain().when(&[HeaderSent(IF_MATCH)]),   204, Yes, IfMatchRequired, Ignored, account("o", AnyOf("u")), AnyOf("u"), &["Table_UpdateEntity"]).body(TABLE_ENTITY_BODY_BYTES_MAX).built(),
    Operation::row(InsertOrReplaceEntity,     &[Put],           Entity,     plain().when(&[HeaderNotSent(IF_MATCH)]), 204, Yes, Never,        Ignored, account("o", AllOf("au")), AllOf("au"), &[]).body(TABLE_ENTITY_BODY_BYTES_MAX).built(),
    Operation::row(MergeEntity,               &[Patch, Merge],  Entity,     plain().when(&[HeaderSent(IF_MATCH)]),   204, Yes, IfMatchRequired, Ignored, account("o", AnyOf("u")), AnyOf("u"), &["Table_MergeEntity"]).body(TABLE_ENTITY_BODY_BYTES_MAX).built(),
    Operation::row(InsertOrMergeEntity,       &[Patch, Merge],  Entity,     plain().when(&[HeaderNotSent(IF_MATCH)]), 204, Yes, Never,        Ignored, account("o", AllOf("au")), AllOf("au"), &[]).body(TABLE_ENTITY_BODY_BYTES_MAX).built(),
    Operation::row(DeleteEntity,              &[Delete],        Entity,     plain(),                                 204, No,  IfMatchRequired, Ignored, account("o", AnyOf("d")), AnyOf("d"), &["Table_DeleteEntity"]).built(),
    Operation::row(SubmitTransaction,         &[Post],          TableBatch, plain(),                                 202, No,  Never,         Ignored, account("o", Whatever),    Whatever,    &[]).body(TABLE_BATCH_BYTES_MAX).built(),
];

//! The rows of the Queue service. No ETag, no condition and no lease anywhere in it.

use super::Anonymous::Always;
use super::Conditions::Never;
use super::LeaseCheck::Ignored;
use super::Letters::{AnyOf, Never as NoSas};
use super::Method::{Delete, Get, Head, Options, Post, Put};
use super::OperationId::*;
use super::Resource::{Account, Anything, Message, Messages, Queue};
use super::ReturnsEtag::No;
use super::Test::{QueryIs, QueryIsNot};
use super::TokenNeeds::{Acl, Delegation};
use super::{NO_SAS, Operation, account, comp, plain, restype_comp};
use crate::limits::{QUEUE_MESSAGE_BODY_BYTES_MAX, XML_BYTES_MAX};

#[rustfmt::skip]
pub const QUEUE: &[Operation] = &[
    //             id                         method        on         chosen by                                      ok   etag conditions lease   account SAS                service SAS  published
    Operation::row(PreflightQueue,            &[Options],   Anything,  plain(),                                       200, No, Never, Ignored, NO_SAS,                    NoSas,       &[]).anonymous(Always).built(),
    Operation::row(SetQueueServiceProperties, &[Put],       Account,   restype_comp("service", "properties"),         202, No, Never, Ignored, account("s", AnyOf("w")),  NoSas,       &["Service_SetProperties"]).body(XML_BYTES_MAX).built(),
    Operation::row(GetQueueServiceProperties, &[Get],       Account,   restype_comp("service", "properties"),         200, No, Never, Ignored, account("s", AnyOf("r")),  NoSas,       &["Service_GetProperties"]).built(),
    Operation::row(GetQueueServiceStats,      &[Get],       Account,   restype_comp("service", "stats"),              200, No, Never, Ignored, account("s", AnyOf("r")),  NoSas,       &["Service_GetStatistics"]).built(),
    Operation::row(GetQueueUserDelegationKey, &[Post],      Account,   restype_comp("service", "userdelegationkey"),  200, No, Never, Ignored, NO_SAS,                    NoSas,       &["Service_GetUserDelegationKey"]).body(XML_BYTES_MAX).reads().token(Delegation).built(),
    Operation::row(ListQueues,                &[Get],       Account,   comp("list"),                                  200, No, Never, Ignored, account("s", AnyOf("l")),  NoSas,       &["Service_ListQueuesSegment"]).built(),
    Operation::row(CreateQueue,               &[Put],       Queue,     plain(),                                       201, No, Never, Ignored, account("c", AnyOf("cw")), NoSas,       &["Queue_Create"]).built(),
    Operation::row(DeleteQueue,               &[Delete],    Queue,     plain(),                                       204, No, Never, Ignored, account("c", AnyOf("d")),  NoSas,       &["Queue_Delete"]).built(),
    Operation::row(GetQueueMetadata,          &[Get, Head], Queue,     comp("metadata"),                              200, No, Never, Ignored, account("c", AnyOf("r")),  AnyOf("r"),  &["Queue_GetProperties"]).built(),
    Operation::row(SetQueueMetadata,          &[Put],       Queue,     comp("metadata"),                              204, No, Never, Ignored, account("c", AnyOf("w")),  NoSas,       &["Queue_SetMetadata"]).built(),
    Operation::row(GetQueueAcl,               &[Get, Head], Queue,     comp("acl"),                                   200, No, Never, Ignored, NO_SAS,                    NoSas,       &["Queue_GetAccessPolicy"]).token(Acl).built(),
    Operation::row(SetQueueAcl,               &[Put],       Queue,     comp("acl"),                                   204, No, Never, Ignored, NO_SAS,                    NoSas,       &["Queue_SetAccessPolicy"]).body(XML_BYTES_MAX).token(Acl).built(),
    Operation::row(PutMessage,                &[Post],      Messages,  plain(),                                       201, No, Never, Ignored, account("o", AnyOf("a")),  AnyOf("a"),  &["Messages_Enqueue"]).body(QUEUE_MESSAGE_BODY_BYTES_MAX).built(),
    Operation::row(GetMessages,               &[Get],       Messages,  plain().when(&[QueryIsNot("peekonly", "true")]), 200, No, Never, Ignored, account("o", AnyOf("p")), AnyOf("p"), &["Messages_Dequeue"]).writes().built(),
    Operation::row(PeekMessages,              &[Get],       Messages,  plain().when(&[QueryIs("peekonly", "true")]),  200, No, Never, Ignored, account("o", AnyOf("r")),  AnyOf("r"),  &["Messages_Peek"]).built(),
    Operation::row(ClearMessages,             &[Delete],    Messages,  plain(),                                       204, No, Never, Ignored, account("o", AnyOf("d")),  NoSas,       &["Messages_Clear"]).built(),
    Operation::row(UpdateMessage,             &[Put],       Message,   plain(),                                       204, No, Never, Ignored, account("o", AnyOf("u")),  AnyOf("u"),  &["MessageId_Update"]).body(QUEUE_MESSAGE_BODY_BYTES_MAX).built(),
    Operation::row(DeleteMessage,             &[Delete],    Message,   plain(),                                       204, No, Never, Ignored, account("o", AnyOf("p")),  AnyOf("p"),  &["MessageId_Delete"]).built(),
];

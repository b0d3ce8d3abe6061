//! The rows of the File service. No conditional headers anywhere in it: the last writer wins, and leases are the only condition. A rename
//! has two leases to think of, each with a header of its own; the one that all other operations take is not looked at.

use super::Anonymous::Always;
use super::Conditions::Never;
use super::Effect::{Alters, Deletes, Leases, Marks, Reads, Renames, Replaces};
use super::LeaseCheck::{Acts, IfGiven, IfLeased, Ignored};
use super::Letters::{AnyOf, AnyOfOrCreate, Never as NoSas};
use super::Method::{Delete, Get, Head, Options, Post, Put};
use super::OperationId::*;
use super::Resource::{Account, Anything, Directory, File, Share};
use super::ReturnsEtag::{No, Yes};
use super::Test::{HeaderIs, HeaderNotSent, HeaderSent};
use super::TokenNeeds::{Acl, Delegation};
use super::{NO_SAS, Operation, account, comp, plain, restype, restype_comp};
use crate::limits::{FILE_PERMISSION_BODY_BYTES_MAX, PUT_RANGE_BYTES_MAX, XML_BYTES_MAX};

const SOURCE: &str = "x-ms-copy-source";
const ACTION: &str = "x-ms-lease-action";

#[rustfmt::skip]
pub const FILE: &[Operation] = &[
    //             id                         method        on         chosen by                                          ok   etag conditions lease  account SAS                 service SAS  published
    Operation::row(PreflightFile,             &[Options],   Anything,  plain(),                                           200, No,  Never, Ignored,  NO_SAS,                    NoSas,       &[]).anonymous(Always).built(),
    Operation::row(SetFileServiceProperties,  &[Put],       Account,   restype_comp("service", "properties"),             202, No,  Never, Ignored,  account("s", AnyOf("w")),  NoSas,       &["Service_SetProperties"]).body(XML_BYTES_MAX).built(),
    Operation::row(GetFileServiceProperties,  &[Get],       Account,   restype_comp("service", "properties"),             200, No,  Never, Ignored,  account("s", AnyOf("r")),  NoSas,       &["Service_GetProperties"]).built(),
    Operation::row(ListShares,                &[Get],       Account,   comp("list"),                                      200, No,  Never, Ignored,  account("s", AnyOf("l")),  NoSas,       &["Service_ListSharesSegment"]).built(),
    Operation::row(GetFileUserDelegationKey,  &[Post],      Account,   restype_comp("service", "userdelegationkey"),      200, No,  Never, Ignored,  NO_SAS,                    NoSas,       &["Service_GetUserDelegationKey"]).body(XML_BYTES_MAX).reads().token(Delegation).built(),

    Operation::row(CreateShare,               &[Put],       Share,     restype("share"),                                  201, Yes, Never, Ignored,  account("c", AnyOf("cw")), NoSas,       &["Share_Create"]).built(),
    Operation::row(GetShareProperties,        &[Get, Head], Share,     restype("share"),                                  200, Yes, Never, IfGiven,  account("c", AnyOf("r")),  NoSas,       &["Share_GetProperties"]).built(),
    Operation::row(GetShareMetadata,          &[Get, Head], Share,     restype_comp("share", "metadata"),                 200, Yes, Never, IfGiven,  account("c", AnyOf("r")),  NoSas,       &[]).built(),
    Operation::row(SetShareProperties,        &[Put],       Share,     restype_comp("share", "properties"),               200, Yes, Never, IfGiven,  account("c", AnyOf("w")),  NoSas,       &["Share_SetProperties"]).built(),
    Operation::row(SetShareMetadata,          &[Put],       Share,     restype_comp("share", "metadata"),                 200, Yes, Never, IfGiven,  account("c", AnyOf("w")),  NoSas,       &["Share_SetMetadata"]).built(),
    Operation::row(DeleteShare,               &[Delete],    Share,     restype("share"),                                  202, No,  Never, IfLeased, account("c", AnyOf("d")),  NoSas,       &["Share_Delete"]).built(),
    Operation::row(SnapshotShare,             &[Put],       Share,     restype_comp("share", "snapshot"),                 201, Yes, Never, Ignored,  account("c", AnyOf("cw")), NoSas,       &["Share_CreateSnapshot"]).built(),
    Operation::row(RestoreShare,              &[Put],       Share,     restype_comp("share", "undelete"),                 201, Yes, Never, Ignored,  account("c", AnyOf("w")),  NoSas,       &["Share_Restore"]).built(),
    Operation::row(GetShareAcl,               &[Get, Head], Share,     restype_comp("share", "acl"),                      200, Yes, Never, IfGiven,  NO_SAS,                    NoSas,       &["Share_GetAccessPolicy"]).token(Acl).built(),
    Operation::row(SetShareAcl,               &[Put],       Share,     restype_comp("share", "acl"),                      200, Yes, Never, IfGiven,  NO_SAS,                    NoSas,       &["Share_SetAccessPolicy"]).body(XML_BYTES_MAX).token(Acl).built(),
    Operation::row(GetShareStats,             &[Get],       Share,     restype_comp("share", "stats"),                    200, Yes, Never, IfGiven,  account("c", AnyOf("r")),  NoSas,       &["Share_GetStatistics"]).built(),
    Operation::row(CreateSharePermission,     &[Put],       Share,     restype_comp("share", "filepermission"),           201, No,  Never, Ignored,  account("c", AnyOf("w")),  NoSas,       &["Share_CreatePermission"]).body(FILE_PERMISSION_BODY_BYTES_MAX).built(),
    Operation::row(GetSharePermission,        &[Get],       Share,     restype_comp("share", "filepermission"),           200, No,  Never, Ignored,  account("c", AnyOf("r")),  NoSas,       &["Share_GetPermission"]).built(),
    Operation::row(AcquireShareLease,         &[Put],       Share,     restype_comp("share", "lease").when(&[HeaderIs(ACTION, "acquire")]), 201, Yes, Never, Acts, account("c", AnyOf("w")),  NoSas, &["Share_AcquireLease"]).built(),
    Operation::row(RenewShareLease,           &[Put],       Share,     restype_comp("share", "lease").when(&[HeaderIs(ACTION, "renew")]),   200, Yes, Never, Acts, account("c", AnyOf("w")),  NoSas, &["Share_RenewLease"]).built(),
    Operation::row(ChangeShareLease,          &[Put],       Share,     restype_comp("share", "lease").when(&[HeaderIs(ACTION, "change")]),  200, Yes, Never, Acts, account("c", AnyOf("w")),  NoSas, &["Share_ChangeLease"]).built(),
    Operation::row(ReleaseShareLease,         &[Put],       Share,     restype_comp("share", "lease").when(&[HeaderIs(ACTION, "release")]), 200, Yes, Never, Acts, account("c", AnyOf("w")),  NoSas, &["Share_ReleaseLease"]).built(),
    Operation::row(BreakShareLease,           &[Put],       Share,     restype_comp("share", "lease").when(&[HeaderIs(ACTION, "break")]),   202, Yes, Never, Acts, account("c", AnyOf("wd")), NoSas, &["Share_BreakLease"]).built(),
    Operation::row(GetHardLinks,              &[Get],       Share,     comp("hardlinks"),                                 200, No,  Never, Ignored,  account("c", AnyOf("l")),  AnyOf("l"),  &["File_GetHardLinks"]),

    Operation::row(CreateDirectory,           &[Put],       Directory, restype("directory"),                              201, Yes, Never, Ignored,  account("o", AnyOfOrCreate("w")), AnyOfOrCreate("w"), &["Directory_Create"]).built(),
    Operation::row(GetDirectoryProperties,    &[Get, Head], Directory, restype("directory"),                              200, Yes, Never, Ignored,  account("o", AnyOf("r")),  AnyOf("r"),  &["Directory_GetProperties"]).built(),
    Operation::row(GetDirectoryMetadata,      &[Get, Head], Directory, restype_comp("directory", "metadata"),             200, Yes, Never, Ignored,  account("o", AnyOf("r")),  AnyOf("r"),  &[]).built(),
    Operation::row(SetDirectoryProperties,    &[Put],       Directory, restype_comp("directory", "properties"),           200, Yes, Never, Ignored,  account("o", AnyOf("w")),  AnyOf("w"),  &["Directory_SetProperties"]).built(),
    Operation::row(SetDirectoryMetadata,      &[Put],       Directory, restype_comp("directory", "metadata"),             200, Yes, Never, Ignored,  account("o", AnyOf("w")),  AnyOf("w"),  &["Directory_SetMetadata"]).built(),
    Operation::row(DeleteDirectory,           &[Delete],    Directory, restype("directory"),                              202, No,  Never, Ignored,  account("o", AnyOf("d")),  AnyOf("d"),  &["Directory_Delete"]).does(Deletes).built(),
    Operation::row(RenameDirectory,           &[Put],       Directory, restype_comp("directory", "rename"),               200, Yes, Never, Ignored,  account("o", AnyOf("w")),  AnyOf("w"),  &["Directory_Rename"]).does(Renames).built(),
    Operation::row(ListDirectory,             &[Get],       Directory, restype_comp("directory", "list"),                 200, No,  Never, Ignored,  account("c", AnyOf("l")),  AnyOf("l"),  &["Directory_ListFilesAndDirectoriesSegment"]).built(),

    Operation::row(CreateFile,                &[Put],       File,      plain().when(&[HeaderNotSent(SOURCE)]),            201, Yes, Never, IfLeased, account("o", AnyOfOrCreate("w")), AnyOfOrCreate("w"), &["File_Create"]).does(Replaces).body(PUT_RANGE_BYTES_MAX).built(),
    Operation::row(CopyFile,                  &[Put],       File,      plain().when(&[HeaderSent(SOURCE)]),               202, Yes, Never, IfLeased, account("o", AnyOfOrCreate("w")), AnyOfOrCreate("w"), &["File_StartCopy"]).does(Replaces).built(),
    Operation::row(GetFile,                   &[Get],       File,      plain(),                                           200, Yes, Never, IfGiven,  account("o", AnyOf("r")),  AnyOf("r"),  &["File_Download"]).does(Reads).built(),
    Operation::row(GetFileProperties,         &[Head],      File,      plain(),                                           200, Yes, Never, IfGiven,  account("o", AnyOf("r")),  AnyOf("r"),  &["File_GetProperties"]).built(),
    Operation::row(GetFileMetadata,           &[Get, Head], File,      comp("metadata"),                                  200, Yes, Never, IfGiven,  account("o", AnyOf("r")),  AnyOf("r"),  &[]).built(),
    Operation::row(SetFileProperties,         &[Put],       File,      comp("properties"),                                200, Yes, Never, IfLeased, account("o", AnyOf("w")),  AnyOf("w"),  &["File_SetHTTPHeaders"]).does(Marks).built(),
    Operation::row(SetFileMetadata,           &[Put],       File,      comp("metadata"),                                  200, Yes, Never, IfLeased, account("o", AnyOf("w")),  AnyOf("w"),  &["File_SetMetadata"]).does(Marks).built(),
    Operation::row(DeleteFile,                &[Delete],    File,      plain(),                                           202, No,  Never, IfLeased, account("o", AnyOf("d")),  AnyOf("d"),  &["File_Delete"]).does(Deletes).built(),
    Operation::row(RenameFile,                &[Put],       File,      comp("rename"),                                    200, Yes, Never, Ignored,  account("o", AnyOf("w")),  AnyOf("w"),  &["File_Rename"]).does(Renames).built(),
    Operation::row(PutRange,                  &[Put],       File,      comp("range").when(&[HeaderNotSent(SOURCE)]),      201, Yes, Never, IfLeased, account("o", AnyOf("w")),  AnyOf("w"),  &["File_UploadRange"]).does(Alters).body(PUT_RANGE_BYTES_MAX).built(),
    Operation::row(PutRangeFromUrl,           &[Put],       File,      comp("range").when(&[HeaderSent(SOURCE)]),         201, Yes, Never, IfLeased, account("o", AnyOf("w")),  AnyOf("w"),  &["File_UploadRangeFromURL"]).does(Alters).built(),
    Operation::row(ListRanges,                &[Get],       File,      comp("rangelist"),                                 200, Yes, Never, IfGiven,  account("o", AnyOf("r")),  AnyOf("r"),  &["File_GetRangeList"]).does(Reads).built(),
    Operation::row(AbortCopyFile,             &[Put],       File,      comp("copy"),                                      204, No,  Never, IfLeased, account("o", AnyOf("w")),  AnyOf("w"),  &["File_AbortCopy"]).does(Marks).built(),
    Operation::row(ListHandles,               &[Get],       File,      comp("listhandles"),                               200, No,  Never, Ignored,  account("o", AnyOf("r")),  NoSas,       &["Directory_ListHandles", "File_ListHandles"]).built(),
    Operation::row(ForceCloseHandles,         &[Put],       File,      comp("forceclosehandles"),                         200, No,  Never, Ignored,  account("o", AnyOf("w")),  NoSas,       &["Directory_ForceCloseHandles", "File_ForceCloseHandles"]).built(),
    Operation::row(AcquireFileLease,          &[Put],       File,      comp("lease").when(&[HeaderIs(ACTION, "acquire")]), 201, Yes, Never, Acts,    account("o", AnyOf("w")),  AnyOf("w"),  &["File_AcquireLease"]).does(Leases).built(),
    Operation::row(ChangeFileLease,           &[Put],       File,      comp("lease").when(&[HeaderIs(ACTION, "change")]), 200, Yes, Never, Acts,     account("o", AnyOf("w")),  AnyOf("w"),  &["File_ChangeLease"]).does(Leases).built(),
    Operation::row(ReleaseFileLease,          &[Put],       File,      comp("lease").when(&[HeaderIs(ACTION, "release")]), 200, Yes, Never, Acts,    account("o", AnyOf("w")),  AnyOf("w"),  &["File_ReleaseLease"]).does(Leases).built(),
    Operation::row(BreakFileLease,            &[Put],       File,      comp("lease").when(&[HeaderIs(ACTION, "break")]),  202, Yes, Never, Acts,     account("o", AnyOf("wd")), AnyOf("wd"), &["File_BreakLease"]).does(Leases).built(),
    Operation::row(CreateSymbolicLink,        &[Put],       File,      restype("symboliclink"),                           201, Yes, Never, IfGiven,  account("o", AnyOfOrCreate("w")), AnyOfOrCreate("w"), &["File_CreateSymbolicLink"]).built(),
    Operation::row(GetSymbolicLink,           &[Get],       File,      restype("symboliclink"),                           200, Yes, Never, Ignored,  account("o", AnyOf("r")),  AnyOf("r"),  &["File_GetSymbolicLink"]).built(),
    Operation::row(CreateHardLink,            &[Put],       File,      restype("hardlink"),                               201, Yes, Never, IfGiven,  account("o", AnyOfOrCreate("w")), AnyOfOrCreate("w"), &["File_CreateHardLink"]).built(),
];

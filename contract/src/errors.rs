//! One row per error code: its status and the service's words. A refusal is a code and what the body says beside it.

/// The request is refused, with the service's own code. Not a failure of ours: nothing is logged as an error.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    pub code: ErrorCode,
    /// Only where a code has another status than its row's: ConditionNotMet is 304 on reads.
    pub status: u16,
    /// Instead of the code's own words, where the place of a mistake has to be named.
    pub message: Option<String>,
    /// Elements after Message in the body, in order.
    pub detail: Vec<(&'static str, String)>,
    /// Headers beyond the common ones, such as Content-Range of a 416.
    pub headers: Vec<(&'static str, String)>,
    pub reason: Reason,
}

/// What was asked for and what is there, in words, for whoever looks at the server. The client is told nothing of it, so two refusals that
/// differ in nothing else are the same.
#[derive(Clone, Debug, Default)]
pub struct Reason(pub Option<Box<str>>);

impl PartialEq for Reason {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for Reason {}

impl From<ErrorCode> for Refusal {
    fn from(code: ErrorCode) -> Self {
        let (status, reason) = (code.status(), Reason::default());
        Refusal { code, status, message: None, detail: Vec::new(), headers: Vec::new(), reason }
    }
}

impl Refusal {
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.detail.push((name, value.into()));
        self
    }

    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    pub fn saying(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }

    /// Why, for whoever looks at the server.
    pub fn because(mut self, reason: impl Into<Box<str>>) -> Self {
        self.reason = Reason(Some(reason.into()));
        self
    }

    /// The same refusal by another code: what was refused stays why.
    pub fn as_code(self, code: ErrorCode) -> Self {
        Refusal { reason: self.reason, ..code.into() }
    }

    pub fn message(&self) -> &str {
        self.message.as_deref().unwrap_or(self.code.message())
    }

    /// 304: a read whose caller has the newest already.
    pub fn not_modified() -> Self {
        Refusal::from(ErrorCode::ConditionNotMet).status(304)
    }

    pub fn bad_header(name: &'static str, value: impl Into<String>) -> Self {
        Refusal::from(ErrorCode::InvalidHeaderValue).with("HeaderName", name).with("HeaderValue", value)
    }

    pub fn missing_header(name: &'static str) -> Self {
        Refusal::from(ErrorCode::MissingRequiredHeader).with("HeaderName", name)
    }

    pub fn missing_query(name: &'static str) -> Self {
        Refusal::from(ErrorCode::MissingRequiredQueryParameter).with("QueryParameterName", name)
    }

    pub fn out_of_range(name: &'static str, value: impl Into<String>, least: u64, most: u64) -> Self {
        Refusal::from(ErrorCode::OutOfRangeQueryParameterValue)
            .with("QueryParameterName", name)
            .with("QueryParameterValue", value)
            .with("MinimumAllowed", least.to_string())
            .with("MaximumAllowed", most.to_string())
    }

    pub fn bad_query(name: &'static str, value: impl Into<String>, reason: &'static str) -> Self {
        Refusal::from(ErrorCode::InvalidQueryParameterValue)
            .with("QueryParameterName", name)
            .with("QueryParameterValue", value)
            .with("Reason", reason)
    }
}

macro_rules! error_codes {
    ($($name:ident $status:literal $message:literal)*) => {
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum ErrorCode { $($name),* }

        impl ErrorCode {
            /// A refusal, and why, for whoever looks at the server.
            pub fn because(self, reason: impl Into<Box<str>>) -> Refusal {
                Refusal::from(self).because(reason)
            }

            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$name),*];
            pub const fn name(self) -> &'static str { match self { $(ErrorCode::$name => stringify!($name)),* } }
            pub const fn status(self) -> u16 { match self { $(ErrorCode::$name => $status),* } }
            pub const fn message(self) -> &'static str { match self { $(ErrorCode::$name => $message),* } }
        }
    };
}

error_codes! {
    BlockListTooLong                   400 "The block list may not contain more than 50,000 blocks."
    BothCrc64AndMd5HeaderPresent       400 "A request is checked by its MD5 or by its CRC64, and both are specified."
    ConditionHeadersNotSupported       400 "Condition headers are not supported."
    CommandsInBatchActOnDifferentPartitions 400 "All commands in a batch must operate on same entity group."
    DuplicatePropertiesSpecified       400 "A property is specified more than one time."
    DuplicateTagNames                  400 "The tags specified contain duplicate names."
    EmptyMetadataKey                   400 "The key for one of the metadata key-value pairs is empty."
    EmptyTagName                       400 "The name of one of the tag key-value pairs is empty."
    EntityTooLarge                     400 "The entity is larger than the maximum allowed size (1MB)."
    FileInvalidPermission              400 "The security descriptor specified for the file or directory is invalid."
    FileInvalidPermissionKey           400 "The specified file permission key does not exist in the share."
    InvalidAuthenticationInfo          400 "Authentication information is not given in the correct format. Check the value of Authorization header."
    InvalidBlobOrBlock                 400 "The specified blob or block content is invalid."
    InvalidBlockId                     400 "The specified block ID is invalid. The block ID must be Base64-encoded."
    InvalidBlockList                   400 "The specified block list is invalid."
    InvalidDuplicateRow                400 "The batch request contains multiple changes with same row key. An entity can appear only once in a batch request."
    InvalidFileOrDirectoryPathName     400 "The file or directory path name is invalid or too long."
    InvalidHeaderValue                 400 "The value for one of the HTTP headers is not in the correct format."
    InvalidHttpVerb                    400 "The HTTP verb specified is invalid - it is not recognized by the server."
    InvalidInput                       400 "One of the request inputs is not valid."
    InvalidMarker                      400 "The specified marker is invalid."
    InvalidMd5                         400 "The MD5 value specified in the request is invalid. MD5 value must be 128 bits and base64 encoded."
    InvalidMetadata                    400 "The metadata specified is invalid. It has characters that are not permitted."
    InvalidQueryParameterValue         400 "Value for one of the query parameters specified in the request URI is invalid."
    InvalidResourceName                400 "The specified resource name contains invalid characters."
    InvalidTag                         400 "The tags specified are invalid. They contain characters that are not permitted."
    InvalidUri                         400 "The requested URI does not represent any resource on the server."
    InvalidXmlNodeValue                400 "The value provided for one of the XML nodes in the request body was not in the correct format."
    InvalidValueType                   400 "The value specified is invalid."
    InvalidXmlDocument                 400 "XML specified is not syntactically valid."
    Crc64Mismatch                      400 "The CRC64 value specified in the request did not match with the CRC64 value calculated by the server."
    Md5Mismatch                        400 "The MD5 value specified in the request did not match with the MD5 value calculated by the server."
    MetadataTooLarge                   400 "The metadata specified exceeds the maximum permissible limit."
    MissingRequiredHeader              400 "An HTTP header that's mandatory for this request is not specified."
    MissingRequiredQueryParameter      400 "A query parameter that's mandatory for this request is not specified."
    MultipleConditionHeadersNotSupported 400 "Multiple condition headers are not supported."
    OutOfRangeInput                    400 "One of the request inputs is out of range."
    OutOfRangeQueryParameterValue      400 "One of the query parameters specified in the request URI is outside the permissible range."
    PropertiesNeedValue                400 "The values are not specified for all properties in the entity."
    PropertyNameInvalid                400 "The property name is invalid."
    PropertyNameTooLong                400 "The property name exceeds the maximum allowed length (255)."
    PropertyValueTooLarge              400 "The property value exceeds the maximum allowed size (64KB). If the property value is a string, it is UTF-16 encoded and the maximum number of characters should be 32K or less."
    RequestUrlFailedToParse            400 "The url in the request could not be parsed."
    TagsTooLarge                       400 "The tags specified exceed the maximum permissible limit."
    TooManyProperties                  400 "The entity contains more properties than allowed. Each entity can include up to 252 properties to store data. Each entity also has 3 system properties."
    UnsatisfiableCondition             400 "The request includes an unsatisfiable condition for this operation."
    UnsupportedHeader                  400 "One of the HTTP headers specified in the request is not supported."
    XMethodIncorrectCount              400 "More than one X-HTTP-Method is specified."
    XMethodIncorrectValue              400 "The specified X-HTTP-Method is invalid."
    XMethodNotUsingPost                400 "The request uses X-HTTP-Method with an HTTP verb other than POST."
    NoAuthenticationInformation        401 "Server failed to authenticate the request. Please refer to the information in the www-authenticate header."
    AuthenticationFailed               403 "Server failed to authenticate the request. Make sure the value of Authorization header is formed correctly including the signature."
    AuthorizationFailure               403 "This request is not authorized to perform this operation."
    AuthorizationPermissionMismatch    403 "This request is not authorized to perform this operation using this permission."
    AuthorizationProtocolMismatch      403 "This request is not authorized to perform this operation using this protocol."
    AuthorizationResourceTypeMismatch  403 "This request is not authorized to perform this operation using this resource type."
    AuthorizationServiceMismatch       403 "This request is not authorized to perform this operation using this service."
    AuthorizationSourceIPMismatch      403 "This request is not authorized to perform this operation using this source IP."
    CorsPreflightFailure               403 "CORS not enabled or no matching rule found for this request."
    UnauthorizedBlobOverwrite          403 "This request is not authorized to perform blob overwrites."
    WriteOperationNotSupportedOnSecondary 403 "Write operations are not allowed."
    BlobNotFound                       404 "The specified blob does not exist."
    ContainerNotFound                  404 "The specified container does not exist."
    MessageNotFound                    404 "The specified message does not exist."
    ParentNotFound                     404 "The specified parent path does not exist."
    QueueNotFound                      404 "The specified queue does not exist."
    ResourceNotFound                   404 "The specified resource does not exist."
    ShareNotFound                      404 "The specified share does not exist."
    ShareSnapshotNotFound              404 "The specified share snapshot does not exist."
    TableNotFound                      404 "The table specified does not exist."
    WebContentNotFound                 404 "The requested content does not exist."
    UnsupportedHttpVerb                405 "The resource doesn't support specified Http Verb."
    BlobArchived                       409 "This operation is not permitted on an archived blob."
    BlobBeingRehydrated                409 "This operation is not permitted because the blob is being rehydrated."
    BlobImmutableDueToLegalHold        409 "This operation is not permitted as the blob is immutable due to one or more legal holds."
    BlobImmutableDueToPolicy           409 "This operation is not permitted as the blob is immutable due to a policy."
    CannotDeleteFileOrDirectory        409 "The file or directory could not be deleted because it is in use by an SMB client."
    OperationNotAllowedOnRootBlob      403 "The current version of a blob can only be deleted by deleting the blob."
    CopyIdMismatch                     409 "The specified copy ID did not match the copy ID for the pending copy operation."
    DeleteShareWhenSnapshotLeased      409 "The share cannot be deleted because one or more of its snapshots have active leases."
    DirectoryNotEmpty                  409 "The specified directory is not empty."
    FileLockConflict                   409 "A portion of the specified file is locked by an SMB client."
    IncrementalCopyBlobMismatch        409 "The specified source blob is different than the copy source of the existing incremental copy blob."
    IncrementalCopyOfEarlierSnapshotNotAllowed 409 "The specified snapshot is earlier than the last snapshot copied into the incremental copy blob."
    IncrementalCopySourceMustBeSnapshot 409 "The source for incremental copy request must be a snapshot."
    InvalidSourceBlobType              409 "The copy source blob type is invalid for this operation."
    InvalidSourceBlobUrl               409 "The source URL for incremental copy blob operation must be valid Azure Storage blob URL."
    HardLinkCountExceeded              409 "The file has as many names as a file can have."
    NoPendingCopyOperation             409 "There is currently no pending copy operation."
    ReadOnlyAttribute                  409 "The specified resource is read-only and cannot be modified at this time."
    ResourceAlreadyExists              409 "The specified resource already exists."
    ResourceTypeMismatch               409 "The resource type in the request does not match that of the resource that is there."
    ShareAlreadyExists                 409 "The specified share already exists."
    ShareHasSnapshots                  409 "The specified share has snapshots and cannot be deleted without them."
    ShareSizeLimitReached              409 "The operation would make the share larger than its quota."
    ShareSnapshotCountExceeded         409 "The share has as many snapshots as a share can have."
    ShareSnapshotOperationNotSupported 409 "The specified operation is not supported on a share snapshot."
    SharingViolation                   409 "The specified resource may be in use by an SMB client."
    SMBDeletePending                   409 "The specified resource is marked for deletion by an SMB client."
    UnsupportedShareProtocol           409 "The operation is not supported on a share of this protocol."
    OperationNotAllowedOnIncrementalCopyBlob 409 "The specified operation is not allowed on an incremental copy blob."
    PendingCopyOperation               409 "There is currently a pending copy operation."
    PermanentDeleteNotAllowed          409 "Only a snapshot or version that was deleted before can be deleted permanently, and only if the delete retention policy allows it."
    PreviousSnapshotCannotBeNewer      400 "The prevsnapshot query parameter value cannot be newer than the snapshot query parameter value."
    PreviousSnapshotOperationNotSupported 409 "The file had another name in the previous snapshot, and the request does not allow for that."
    PreviousSnapshotNotFound           409 "The previous snapshot is not found."
    BlobOverwritten                    409 "The blob has been recreated since the previous snapshot was taken."
    SequenceNumberIncrementTooLarge    409 "The sequence number increment cannot be performed because it would result in overflow of the sequence number."
    SequenceNumberConditionNotMet      412 "The sequence number condition specified was not met."
    SnapshotsPresent                   409 "This operation is not permitted because the blob has snapshots."
    BlobIsSealed                       409 "The specified blob is sealed and its contents can't be modified unless the blob is re-created after a delete."
    BlockCountExceedsLimit             409 "The block count exceeds the maximum permissible limit."
    ContainerProtectedFromDeletion     409 "The container holds blobs, and its account keeps blobs immutable: it cannot be deleted before they are."
    ImmutableStorageNotEnabled         409 "The account does not support immutability policies and legal holds on blobs."
    InvalidBlobType                    409 "The blob type is invalid for this operation."
    BlobAlreadyExists                  409 "The specified blob already exists."
    ContainerAlreadyExists             409 "The specified container already exists."
    LeaseAlreadyPresent                409 "There is already a lease present."
    LeaseIdMismatchWithLeaseOperation  409 "The lease ID specified did not match the lease ID for the resource."
    LeaseIsBreakingAndCannotBeAcquired 409 "The lease ID matched, but the lease is currently in breaking state and cannot be acquired until it is broken."
    LeaseIsBreakingAndCannotBeChanged  409 "The lease ID matched, but the lease is currently in breaking state and cannot be changed."
    LeaseIsBrokenAndCannotBeRenewed    409 "The lease ID matched, but the lease has been broken explicitly and cannot be renewed."
    LeaseNotPresentWithLeaseOperation  409 "There is currently no lease on the resource."
    QueueAlreadyExists                 409 "The specified queue already exists."
    EntityAlreadyExists                409 "The specified entity already exists."
    TableAlreadyExists                 409 "The table specified already exists."
    MissingContentLengthHeader         411 "The Content-Length HTTP header is missing."
    AppendPositionConditionNotMet      412 "The append position condition specified was not met."
    InfiniteLeaseDurationRequired      412 "The lease ID matched, but the specified lease must be an infinite-duration lease."
    MaxBlobSizeConditionNotMet         412 "The max blob size condition specified was not met."
    ConditionNotMet                    412 "The condition specified using HTTP conditional header(s) is not met."
    LeaseIdMismatchWithBlobOperation   412 "The lease ID specified did not match the lease ID for the blob."
    LeaseIdMismatchWithContainerOperation 412 "The lease ID specified did not match the lease ID for the container."
    LeaseIdMismatchWithFileOperation   412 "The lease ID specified did not match the lease ID for the file."
    LeaseIdMissing                     412 "There is currently a lease on the resource and no lease ID was specified in the request."
    LeaseLost                          412 "A lease ID was specified, but the lease for the resource has expired."
    LeaseNotPresentWithBlobOperation   412 "There is currently no lease on the blob."
    LeaseNotPresentWithContainerOperation 412 "There is currently no lease on the container."
    LeaseNotPresentWithFileOperation   412 "There is currently no lease on the file."
    SourceConditionNotMet              412 "The source condition specified using HTTP conditional header(s) is not met."
    TargetConditionNotMet              412 "The target condition specified using HTTP conditional header(s) is not met."
    UpdateConditionNotSatisfied        412 "The update condition specified in the request was not satisfied."
    RequestBodyTooLarge                413 "The request body is too large and exceeds the maximum permissible limit."
    AtomFormatNotSupported             415 "Atom format is not supported."
    JsonFormatNotSupported             415 "JSON format is not supported."
    InvalidPageRange                   416 "The page range specified is invalid."
    InvalidRange                       416 "The range specified is invalid for the current size of the resource."
    CannotVerifyCopySource             500 "Could not verify the copy source within the specified time."
    ClientCacheFlushDelay              500 "An SMB client did not give up in time what it keeps of the file."
    InternalError                      500 "The server encountered an internal error. Please retry the request."
    OperationTimedOut                  500 "The operation could not be completed within the permitted time."
    NotImplemented                     501 "The requested operation is not implemented on the specified resource."
    ServerBusy                         503 "The server is currently unable to receive requests. Please retry your request."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_have_error_statuses() {
        let mut names: Vec<_> = ErrorCode::ALL.iter().map(|code| code.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ErrorCode::ALL.len());
        assert!(
            ErrorCode::ALL.iter().all(|code| (400..=599).contains(&code.status()) && code.message().ends_with('.'))
        );
    }
}

//! One row per operation. The row is the one home of what routing, authorization, conditions, lease checks and the contract
//! matrix need to know of it; a new operation is a row, a parse, a decide and a render.

mod blob;

pub use blob::BLOB;

/// The four services, each on its own port or host name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Service {
    Blob,
    Queue,
    Table,
    File,
}

impl Service {
    pub const ALL: [Service; 4] = [Service::Blob, Service::Queue, Service::Table, Service::File];

    /// The label in host names, and the first part of canonical resources.
    pub const fn name(self) -> &'static str {
        match self {
            Service::Blob => "blob",
            Service::Queue => "queue",
            Service::Table => "table",
            Service::File => "file",
        }
    }

    /// The letter in the `ss` field of an account SAS.
    pub const fn letter(self) -> char {
        match self {
            Service::Blob => 'b',
            Service::Queue => 'q',
            Service::Table => 't',
            Service::File => 'f',
        }
    }

    /// The `Server` header of its answers.
    pub const fn server_header(self) -> &'static str {
        match self {
            Service::Blob => "Windows-Azure-Blob/1.0 Microsoft-HTTPAPI/2.0",
            Service::Queue => "Windows-Azure-Queue/1.0 Microsoft-HTTPAPI/2.0",
            Service::Table => "Windows-Azure-Table/1.0 Microsoft-HTTPAPI/2.0",
            Service::File => "Windows-Azure-File/1.0 Microsoft-HTTPAPI/2.0",
        }
    }

    pub const fn rows(self) -> &'static [Operation] {
        match self {
            Service::Blob => BLOB,
            Service::Queue | Service::Table | Service::File => &[],
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Method {
    Get,
    Head,
    Put,
    Post,
    Delete,
    Options,
    Merge,
    Patch,
}

impl Method {
    pub fn parse(text: &str) -> Option<Method> {
        Some(match text {
            "GET" => Method::Get,
            "HEAD" => Method::Head,
            "PUT" => Method::Put,
            "POST" => Method::Post,
            "DELETE" => Method::Delete,
            "OPTIONS" => Method::Options,
            "MERGE" => Method::Merge,
            "PATCH" => Method::Patch,
            _ => return None,
        })
    }

    pub const fn name(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Put => "PUT",
            Method::Post => "POST",
            Method::Delete => "DELETE",
            Method::Options => "OPTIONS",
            Method::Merge => "MERGE",
            Method::Patch => "PATCH",
        }
    }
}

/// What the path names.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Resource {
    /// The account's root: `/`.
    Account,
    Container,
    Blob,
}

/// What picks the operation among those with the same method and resource. `restype`, `comp` and the header must all be as
/// stated: `None` means absent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Selector {
    pub restype: Option<&'static str>,
    pub comp: Option<&'static str>,
    pub header: HeaderTest,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeaderTest {
    /// No header matters.
    Any,
    /// This header has this value (compared without case).
    Is(&'static str, &'static str),
}

/// Does the answer carry ETag and Last-Modified?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReturnsEtag {
    Yes,
    No,
}

/// Which conditional headers are judged, and how (facts/blob.md section 6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Conditions {
    /// None; sent on a write they are refused, on a read they are not looked at.
    Never,
    /// Any combination; a false If-None-Match or If-Modified-Since is 304.
    OnRead,
    /// One header, or one of two pairs; false is 412.
    OnWrite,
    /// As `OnWrite`, and `If-None-Match: *` means "only if it is not there", refused with 409.
    OnCreate,
}

/// What a lease id does to the operation (facts/blob.md section 7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeaseCheck {
    /// The header is not looked at.
    Ignored,
    /// Not needed; checked if it is sent.
    IfGiven,
    /// Needed while the resource is leased.
    IfLeased,
}

/// `srt` and the letters of `sp` of which an account SAS needs one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AccountSas {
    pub resource_type: char,
    pub any_of: &'static str,
}

/// The letters of which a service SAS needs one; `None` where no service SAS ever suffices.
pub type ServiceSas = Option<&'static str>;

/// Does it change anything? The secondary endpoint takes reads alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    Read,
    Write,
}

/// The whole of what the contract says about one operation.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    pub id: OperationId,
    pub methods: &'static [Method],
    pub on: Resource,
    pub chosen_by: Selector,
    pub status: u16,
    pub etag: ReturnsEtag,
    pub conditions: Conditions,
    pub lease: LeaseCheck,
    pub account_sas: AccountSas,
    pub service_sas: ServiceSas,
    pub access: Access,
    /// The largest body taken, in bytes.
    pub body_bytes_max: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OperationId {
    ListContainers,
    CreateContainer,
    GetContainerProperties,
    GetContainerMetadata,
    SetContainerMetadata,
    DeleteContainer,
    ListBlobs,
    PutBlockBlob,
    GetBlob,
    GetBlobProperties,
    DeleteBlob,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_rows_answer_the_same_request() {
        for service in Service::ALL {
            let rows = service.rows();
            for (i, a) in rows.iter().enumerate() {
                for b in &rows[i + 1..] {
                    assert_ne!(a.id, b.id);
                    let same_place = a.on == b.on && a.methods.iter().any(|m| b.methods.contains(m));
                    assert!(!(same_place && a.chosen_by == b.chosen_by), "{:?} and {:?}", a.id, b.id);
                }
            }
        }
    }

    #[test]
    fn rows_agree_with_themselves() {
        for row in Service::ALL.iter().flat_map(|service| service.rows()) {
            let reads = row.methods.iter().all(|m| matches!(m, Method::Get | Method::Head));
            assert_eq!(reads, row.access == Access::Read, "{:?}", row.id);
            assert_eq!(
                reads && row.conditions != Conditions::Never,
                row.conditions == Conditions::OnRead,
                "{:?}",
                row.id
            );
            assert!("sco".contains(row.account_sas.resource_type), "{:?}", row.id);
            assert!(!row.account_sas.any_of.is_empty(), "{:?}", row.id);
        }
    }
}

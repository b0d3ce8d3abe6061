//! Every documented maximum, its unit in its name.

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// Put Blob, by the version that raised it.
pub const PUT_BLOB_BYTES_MAX: u64 = 5000 * MIB;
pub const PUT_BLOB_BYTES_MAX_BEFORE_2019_12_12: u64 = 256 * MIB;
pub const PUT_BLOB_BYTES_MAX_BEFORE_2016_05_31: u64 = 64 * MIB;

pub const BLOCK_BYTES_MAX: u64 = 4000 * MIB;
pub const BLOCK_BYTES_MAX_BEFORE_2019_12_12: u64 = 100 * MIB;
pub const BLOCK_BYTES_MAX_BEFORE_2016_05_31: u64 = 4 * MIB;
pub const BLOCK_ID_BYTES_MAX: usize = 64;
/// Blocks of a blob, committed or appended.
pub const BLOCKS_MAX: usize = 50_000;
pub const STAGED_BLOCKS_MAX: u32 = 100_000;
/// What was staged this long ago, and nothing since, is gone.
pub const STAGED_SECONDS_MAX: u64 = 7 * 24 * 3600;
pub const APPEND_BLOCK_BYTES_MAX: u64 = 100 * MIB;
pub const APPEND_BLOCK_BYTES_MAX_BEFORE_2022_11_02: u64 = 4 * MIB;
/// A copy source's URL.
pub const COPY_SOURCE_BYTES_MAX: usize = 2 * KIB as usize;
/// Copy Blob From URL.
pub const COPY_FROM_URL_BYTES_MAX: u64 = 256 * MIB;
/// A copy that is not finished by then has failed.
pub const COPY_PENDING_SECONDS_MAX: u64 = 14 * 24 * 3600;
/// How often a pending copy says how far it has come.
pub const COPY_REPORT_BYTES: u64 = 32 * MIB;
pub const PUT_PAGES_BYTES_MAX: u64 = 4 * MIB;
pub const PAGE_BLOB_BYTES_MAX: u64 = 8 * 1024 * 1024 * MIB;
/// Ranges in one page of a page list.
pub const PAGE_RANGES_MAX: usize = 10_000;
/// 50,000 ids of 88 characters in their elements, and some air.
pub const BLOCK_LIST_BYTES_MAX: u64 = 8 * MIB;
pub const BATCH_BYTES_MAX: u64 = 4 * MIB;
pub const BATCH_PARTS_MAX: usize = 256;
pub const QUERY_BYTES_MAX: u64 = MIB;
/// Properties, access policies, tags: small documents all of them.
pub const XML_BYTES_MAX: u64 = 64 * KIB;

/// A message's text may be 64 KiB, and may be longer escaped.
pub const QUEUE_MESSAGE_BODY_BYTES_MAX: u64 = 131_584;
pub const QUEUE_MESSAGE_TEXT_BYTES_MAX: u64 = 64 * KIB;
pub const QUEUE_MESSAGE_TEXT_BYTES_MAX_BEFORE_2011_08_18: u64 = 8 * KIB;
pub const QUEUE_MESSAGES_MAX: u64 = 32;
pub const QUEUE_VISIBILITY_SECONDS_MAX: u64 = 7 * 24 * 3600;
pub const QUEUE_VISIBILITY_SECONDS_MAX_BEFORE_2011_08_18: u64 = 2 * 3600;
pub const QUEUE_VISIBILITY_SECONDS_DEFAULT: u64 = 30;
pub const QUEUE_TIME_TO_LIVE_SECONDS_DEFAULT: u64 = 7 * 24 * 3600;
pub const QUEUE_TIME_TO_LIVE_SECONDS_MAX_BEFORE_2017_07_29: u64 = 7 * 24 * 3600;

pub const TABLE_ENTITY_BODY_BYTES_MAX: u64 = 4 * MIB;
pub const TABLE_BATCH_BYTES_MAX: u64 = 4 * MIB;
pub const TABLE_BATCH_OPERATIONS_MAX: usize = 100;
pub const TABLE_NAME_CHARS_MIN: usize = 3;
pub const TABLE_NAME_CHARS_MAX: usize = 63;
/// Beside PartitionKey, RowKey and Timestamp.
pub const ENTITY_PROPERTIES_MAX: usize = 252;
pub const PROPERTY_NAME_CHARS_MAX: usize = 255;
/// A string in UTF-16, or a binary.
pub const PROPERTY_VALUE_BYTES_MAX: usize = 64 * KIB as usize;
/// Names and values together.
pub const ENTITY_BYTES_MAX: usize = MIB as usize;
/// A PartitionKey or RowKey, in units of UTF-16: 1 KiB.
pub const ENTITY_KEY_UNITS_MAX: usize = 512;
pub const QUERY_ENTITIES_MAX: usize = 1000;
/// Names in `$select`.
pub const SELECT_NAMES_MAX: usize = 255;

pub const PUT_RANGE_BYTES_MAX: u64 = 4 * MIB;
pub const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024 * MIB;
/// What is cleared is given back in pieces of this size; the rest of a cleared range is zeros.
pub const FILE_CLEAR_BYTES: u64 = 512;
pub const FILE_PERMISSION_BODY_BYTES_MAX: u64 = 64 * KIB;
/// Handles on one file or directory.
pub const FILE_HANDLES_MAX: usize = 2000;
/// A security descriptor in its binary form.
pub const SECURITY_DESCRIPTOR_BYTES_MAX: usize = 64 * KIB as usize;
/// A permission in a header; a longer one needs a key.
pub const FILE_PERMISSION_HEADER_BYTES_MAX: usize = 8 * KIB as usize;
/// One name of a path, in units of UTF-16.
pub const FILE_NAME_UNITS_MAX: usize = 255;
/// A path without its share, in units of UTF-16, and how many names it may have.
pub const FILE_PATH_UNITS_MAX: usize = 2048;
pub const FILE_PATH_DEPTH_MAX: usize = 250;
pub const SHARE_QUOTA_GIB_DEFAULT: u32 = 5120;
pub const SHARE_QUOTA_GIB_MAX: u32 = 102_400;
pub const SHARE_SNAPSHOTS_MAX: usize = 200;
/// Names of one file, where there can be several.
pub const HARD_LINKS_MAX: u32 = 178;

pub const CONTAINER_NAME_CHARS_MIN: usize = 3;
pub const CONTAINER_NAME_CHARS_MAX: usize = 63;
pub const BLOB_NAME_CHARS_MAX: usize = 1024;
pub const BLOB_NAME_SEGMENTS_MAX: usize = 254;

/// Names and values of a resource's metadata together.
pub const METADATA_BYTES_MAX: usize = 8 * KIB as usize;

/// Tags of a blob, and what one of them may be.
pub const TAGS_MAX: usize = 10;
pub const TAG_KEY_CHARS_MAX: usize = 128;
pub const TAG_VALUE_CHARS_MAX: usize = 256;
/// `x-ms-tags` as it is sent.
pub const TAGS_HEADER_BYTES_MAX: usize = 2 * KIB as usize;
/// AND and OR in an expression over tags.
pub const TAG_OPERATORS_MAX: usize = 10;

/// Stored access policies of one container, queue, table or share.
pub const STORED_POLICIES_MAX: usize = 5;
pub const STORED_POLICY_ID_CHARS_MAX: usize = 64;

/// CORS rules of one service, and what is in one of them.
pub const CORS_RULES_MAX: usize = 5;
pub const CORS_BYTES_MAX: usize = 2 * 1024;
pub const CORS_ORIGINS_MAX: usize = 64;
pub const CORS_HEADERS_MAX: usize = 64;
pub const CORS_PREFIXED_HEADERS_MAX: usize = 2;
pub const CORS_NAME_CHARS_MAX: usize = 256;

/// Retention of logs and metrics, and of what was deleted.
pub const RETENTION_DAYS_MAX: u16 = 365;

/// An index or error document of a website.
pub const WEBSITE_PATH_CHARS_MAX: usize = 255;

/// How far ahead a user delegation key may begin or end.
pub const DELEGATION_KEY_SECONDS_MAX: u64 = 7 * 24 * 3600;

/// A lease that ends, in seconds; and how long it may be breaking.
pub const LEASE_SECONDS: std::ops::RangeInclusive<i64> = 15..=60;
pub const LEASE_BREAK_SECONDS_MAX: u32 = 60;

pub const LIST_RESULTS_MAX: usize = 5000;

/// A range whose hash the client asked for.
pub const RANGE_HASH_BYTES_MAX: u64 = 4 * MIB;

pub const CLIENT_REQUEST_ID_CHARS_MAX: usize = 1024;

/// A request may be this far from the server's clock.
pub const DATE_SKEW_SECONDS_MAX: u64 = 15 * 60;

/// Parameters of a query, each counted once.
pub const QUERY_PARAMETERS_MAX: usize = 256;

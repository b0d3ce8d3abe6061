//! Files and directories: names, attributes, sizes, sparse content, who has them open, and paths that lead nowhere.

use std::sync::Arc;

use contract::Service;
use partition::checks::Expectation;
use partition::file::opens::{Access, CachingWanted, Claim, HandleId, ShareMode};
use partition::file::{read, share};
use testing::{Answer, Request, World};

use crate::smb_clients::{self, Nobody};

const TIB: u64 = 1 << 40;

fn file(line: &str) -> Request {
    Request::new(line).of(Service::File)
}

/// A world with the share `share` and what the lines make in it: a directory if the path ends in a slash, otherwise a file of 8 bytes.
async fn share(paths: &[&str]) -> World {
    let world = World::new().await;
    assert_eq!(world.send(&file("PUT share?restype=share")).await.status, 201);
    for path in paths {
        let answer = match path.strip_suffix('/') {
            Some(path) => world.send(&file(&format!("PUT share/{path}?restype=directory"))).await,
            None => create(&world, path, 8).await,
        };
        assert_eq!(answer.status, 201, "{path}: {}", answer.text());
    }
    world
}

async fn create(world: &World, path: &str, bytes: u64) -> Answer {
    let request = file(&format!("PUT share/{path}")).header("x-ms-type", "file");
    world.send(&request.header("x-ms-content-length", bytes.to_string())).await
}

async fn write(world: &World, path: &str, first: u64, content: &[u8]) -> Answer {
    let range = format!("bytes={first}-{}", first + content.len() as u64 - 1);
    let request = file(&format!("PUT share/{path}?comp=range")).header("x-ms-write", "update");
    world.send(&request.header("x-ms-range", range).body(content)).await
}

fn told(answer: &Answer) -> (u16, &str) {
    (answer.status, if answer.status < 300 { "" } else { answer.code() })
}

#[tokio::test]
async fn paths_lead_where_they_say_and_nowhere_else() {
    let world = share(&["dir/", "dir/File.txt"]).await;
    for (path, expected) in [
        ("dir/File.txt", (200, "")),
        ("DIR/file.TXT", (200, "")),
        ("dir%2FFile.txt", (200, "")),
        ("dir/File.txt.", (200, "")),
        ("dir./File.txt", (200, "")),
        ("dir", (404, "ResourceNotFound")),
        ("dir/missing", (404, "ResourceNotFound")),
        ("missing/File.txt", (404, "ParentNotFound")),
        ("dir/File.txt/x", (404, "ParentNotFound")),
        ("dir/File.txt/", (400, "InvalidFileOrDirectoryPathName")),
        ("dir//File.txt", (400, "InvalidFileOrDirectoryPathName")),
        ("dir/../dir/File.txt", (400, "InvalidFileOrDirectoryPathName")),
        ("..%2F..%2Fetc%2Fpasswd", (400, "InvalidFileOrDirectoryPathName")),
        ("%2e%2e/share/dir/File.txt", (400, "InvalidFileOrDirectoryPathName")),
        ("dir%5CFile.txt", (400, "InvalidFileOrDirectoryPathName")),
        ("dir/File.txt:stream", (400, "InvalidFileOrDirectoryPathName")),
        ("dir/nul", (400, "InvalidFileOrDirectoryPathName")),
        ("dir/a%00b", (400, "InvalidFileOrDirectoryPathName")),
        ("dir/%ff", (400, "InvalidUri")),
    ] {
        let answer = world.send(&file(&format!("GET share/{path}"))).await;
        assert_eq!(told(&answer), expected, "{path}");
    }
    let exact = file("GET share/dir/File.txt.").header("x-ms-allow-trailing-dot", "true");
    assert_eq!(told(&world.send(&exact).await), (404, "ResourceNotFound"));
}

#[tokio::test]
async fn files_and_directories_are_no_two_things_of_one_name() {
    let world = share(&["dir/", "file"]).await;
    for (line, expected) in [
        ("PUT share/DIR?restype=directory", (409, "ResourceAlreadyExists")),
        ("PUT share/File?restype=directory", (409, "ResourceAlreadyExists")),
        ("PUT share?restype=directory", (409, "ResourceAlreadyExists")),
        ("PUT share/none/dir?restype=directory", (404, "ParentNotFound")),
        ("DELETE share/file?restype=directory", (409, "ResourceTypeMismatch")),
        ("DELETE share/dir", (409, "ResourceTypeMismatch")),
        ("GET share/file?restype=directory", (404, "ResourceNotFound")),
        ("DELETE share/missing", (404, "ResourceNotFound")),
        ("GET share?restype=directory", (200, "")),
        ("DELETE share?restype=directory", (400, "InvalidInput")),
    ] {
        assert_eq!(told(&world.send(&file(line)).await), expected, "{line}");
    }
    assert_eq!(told(&create(&world, "dir", 0).await), (409, "ResourceTypeMismatch"));
    assert_eq!(told(&create(&world, "none/file", 0).await), (404, "ParentNotFound"));
    assert_eq!(create(&world, "dir/file", 0).await.status, 201);
    assert_eq!(told(&world.send(&file("DELETE share/dir?restype=directory")).await), (409, "DirectoryNotEmpty"));
    assert_eq!(world.send(&file("DELETE share/dir/file")).await.status, 202);
    assert_eq!(world.send(&file("DELETE share/dir?restype=directory")).await.status, 202);
}

#[tokio::test]
async fn an_empty_file_of_a_tebibyte_costs_nothing_and_reads_as_zeros() {
    let world = share(&[]).await;
    assert_eq!(create(&world, "big", TIB).await.status, 201);
    assert_eq!(write(&world, "big", TIB - 5, b"end").await.status, 201);
    let tail = world.send(&file("GET share/big").header("x-ms-range", format!("bytes={}-", TIB - 8))).await;
    assert_eq!((tail.status, tail.body.as_slice()), (206, b"\0\0\0end\0\0".as_slice()));
    let ranges = world.send(&file("GET share/big?comp=rangelist")).await.text();
    let expected = format!("<Ranges><Range><Start>{}</Start><End>{}</End></Range></Ranges>", TIB - 5, TIB - 3);
    assert!(ranges.ends_with(&expected), "{ranges}");
    // Shortened and lengthened again, what was there is gone.
    for bytes in [TIB - 4, TIB] {
        let resize = file("PUT share/big?comp=properties").header("x-ms-content-length", bytes.to_string());
        assert_eq!(world.send(&resize).await.status, 200);
    }
    let tail = world.send(&file("GET share/big").header("x-ms-range", format!("bytes={}-", TIB - 8))).await;
    assert_eq!(tail.body.as_slice(), b"\0\0\0e\0\0\0\0");
    let too_large = create(&world, "larger", 4 * TIB + 1).await;
    assert_eq!(told(&too_large), (400, "OutOfRangeInput"));
}

#[tokio::test]
async fn a_share_holds_no_more_than_its_quota() {
    let world = share(&[]).await;
    let quota = file("PUT share?restype=share&comp=properties").header("x-ms-share-quota", "1");
    assert_eq!(world.send(&quota).await.status, 200);
    const GIB: u64 = 1 << 30;
    assert_eq!(create(&world, "a", GIB - 10).await.status, 201);
    assert_eq!(told(&create(&world, "b", 11).await), (409, "ShareSizeLimitReached"));
    assert_eq!(create(&world, "b", 10).await.status, 201);
    assert_eq!(create(&world, "empty", 0).await.status, 201);
    let resize = |bytes: u64| file("PUT share/b?comp=properties").header("x-ms-content-length", bytes.to_string());
    assert_eq!(told(&world.send(&resize(11)).await), (409, "ShareSizeLimitReached"));
    assert_eq!(world.send(&resize(5)).await.status, 200);
    // Replaced, it counts once.
    assert_eq!(create(&world, "a", GIB - 5).await.status, 201);
    assert_eq!(world.send(&file("DELETE share/a")).await.status, 202);
    let stats = world.send(&file("GET share?restype=share&comp=stats")).await.text();
    assert!(stats.contains("<ShareUsageBytes>5</ShareUsageBytes>"), "{stats}");
}

#[tokio::test]
async fn ranges_are_refused_in_the_services_words() {
    let world = share(&["f"]).await;
    let put = || file("PUT share/f?comp=range");
    for (request, expected) in [
        (put().header("x-ms-range", "bytes=0-3").body("1234"), (400, "MissingRequiredHeader")),
        (put().header("x-ms-write", "update").body("1234"), (400, "MissingRequiredHeader")),
        (
            put().header("x-ms-write", "append").header("x-ms-range", "bytes=0-3").body("1234"),
            (400, "InvalidHeaderValue"),
        ),
        (
            put().header("x-ms-write", "update").header("x-ms-range", "bytes=0-").body("1234"),
            (400, "InvalidHeaderValue"),
        ),
        (
            put().header("x-ms-write", "update").header("x-ms-range", "bytes=0-4").body("1234"),
            (400, "InvalidHeaderValue"),
        ),
        (put().header("x-ms-write", "update").header("x-ms-range", "bytes=6-9").body("1234"), (416, "InvalidRange")),
        (put().header("x-ms-write", "clear").header("x-ms-range", "bytes=6-9"), (416, "InvalidRange")),
        (
            put().header("x-ms-write", "clear").header("x-ms-range", "bytes=0-3").body("1234"),
            (400, "InvalidHeaderValue"),
        ),
        (
            put().header("x-ms-write", "update").header("x-ms-range", "bytes=0-4194304").body(vec![1; 4194305]),
            (413, "RequestBodyTooLarge"),
        ),
        (
            put()
                .header("x-ms-write", "update")
                .header("x-ms-range", "bytes=0-3")
                .header("Content-MD5", "AAAAAAAAAAAAAAAAAAAAAA==")
                .body("1234"),
            (400, "Md5Mismatch"),
        ),
        (put().header("x-ms-write", "update").header("Range", "bytes=2-5").body("1234"), (201, "")),
    ] {
        assert_eq!(told(&world.send(&request).await), expected, "{:?}", request.headers);
    }
    assert_eq!(world.send(&file("GET share/f")).await.body, b"\x00\x001234\0\0");
    let behind = world.send(&file("GET share/f").header("Range", "bytes=8-")).await;
    assert_eq!((told(&behind), behind.header("content-range")), ((416, "InvalidRange"), Some("bytes */8")));
}

#[tokio::test]
async fn attributes_times_and_stamps() {
    let world = share(&["dir/"]).await;
    let set = file("PUT share/f").header("x-ms-type", "file").header("x-ms-content-length", "1");
    let set = set.header("x-ms-file-attributes", "readonly|hidden").header("x-ms-meta-Colour", "red");
    let set = set.header("x-ms-file-creation-time", "2019-07-15T17:59:55.5023770Z");
    let made = world.send(&set.header("x-ms-file-last-write-time", "now")).await;
    assert_eq!(made.header("x-ms-file-attributes"), Some("ReadOnly | Hidden | Archive"));
    assert_eq!(made.header("x-ms-file-creation-time"), Some("2019-07-15T17:59:55.5023770Z"));
    assert_eq!(made.header("x-ms-file-last-write-time"), Some("2026-01-02T03:04:05.0000000Z"));
    assert_eq!(made.header("x-ms-file-parent-id"), Some("0"));
    world.clock.advance_seconds(60);
    // Read-only: nothing but its attributes can be set.
    assert_eq!(told(&write(&world, "f", 0, b"x").await), (409, "ReadOnlyAttribute"));
    assert_eq!(told(&create(&world, "f", 1).await), (409, "ReadOnlyAttribute"));
    assert_eq!(told(&world.send(&file("PUT share/f?comp=metadata")).await), (409, "ReadOnlyAttribute"));
    assert_eq!(told(&world.send(&file("DELETE share/f")).await), (409, "ReadOnlyAttribute"));
    let set = file("PUT share/f?comp=properties").header("x-ms-file-attributes", "None");
    let changed = world.send(&set.header("x-ms-content-type", "text/plain")).await;
    assert_eq!((changed.status, changed.header("x-ms-file-attributes")), (200, Some("None")));
    assert_eq!(changed.header("x-ms-file-last-write-time"), Some("2026-01-02T03:04:05.0000000Z"));
    assert_eq!(changed.header("x-ms-file-change-time"), Some("2026-01-02T03:05:05.0000000Z"));
    assert_ne!(changed.header("etag"), made.header("etag"));

    world.clock.advance_seconds(60);
    let preserved = file("PUT share/f?comp=range").header("x-ms-write", "update").header("x-ms-range", "bytes=0-0");
    let preserved = world.send(&preserved.header("x-ms-file-last-write-time", "Preserve").body("x")).await;
    assert_eq!(preserved.header("x-ms-file-last-write-time"), Some("2026-01-02T03:04:05.0000000Z"));
    let now = write(&world, "f", 0, b"y").await;
    assert_eq!(now.header("x-ms-file-last-write-time"), Some("2026-01-02T03:06:05.0000000Z"));
    let head = world.send(&file("HEAD share/f")).await;
    assert_eq!(head.header("content-type"), Some("text/plain"));
    assert_eq!(head.header("x-ms-meta-Colour"), Some("red"));
    assert_eq!(head.header("etag"), now.header("etag"));
    for (header, value) in [
        ("x-ms-file-attributes", "Compressed"),
        ("x-ms-file-attributes", "Directory"),
        ("x-ms-file-creation-time", "yesterday"),
        ("x-ms-file-permission-key", "1*2"),
        ("x-ms-file-permission-key", "one"),
        ("x-ms-content-md5", "short"),
    ] {
        let request = file("PUT share/g").header("x-ms-type", "file").header("x-ms-content-length", "1");
        let answer = world.send(&request.header(header, value)).await;
        assert_eq!(answer.status, 400, "{header}: {value}");
    }
    let bad = file("PUT share/g?restype=directory").header("x-ms-file-permission", "not SDDL");
    assert_eq!(told(&world.send(&bad).await), (400, "FileInvalidPermission"));
    let posix = file("PUT share/g?restype=directory").header("x-ms-mode", "0755");
    assert_eq!(told(&world.send(&posix).await), (400, "UnsupportedHeader"));
}

#[tokio::test]
async fn permissions_have_keys_and_are_inherited() {
    const SDDL: &str = "O:SYG:SYD:(A;OICI;FA;;;SY)(A;OICI;FR;;;BU)";
    let world = share(&["plain", "plain-dir/"]).await;
    let with = |line: &str| file(line).header("x-ms-file-permission", SDDL);
    let key = |answer: &Answer| answer.header("x-ms-file-permission-key").expect("always one").to_string();
    let first = key(&world.send(&with("PUT share/a?restype=directory")).await);
    assert_eq!(key(&world.send(&with("PUT share/b?restype=directory")).await), first);
    let plain = key(&world.send(&file("HEAD share/plain")).await);
    assert_ne!(plain, first);
    // What is made in a directory inherits from it; what the default hands down is the default.
    assert_eq!(key(&create(&world, "plain-dir/f", 0).await), plain);
    let inherited = key(&create(&world, "a/f", 0).await);
    assert!(inherited != plain && inherited != first, "{inherited}");
    assert_eq!(key(&create(&world, "b/f", 0).await), inherited);
    // A key is as good as the text.
    let known = file("PUT share/plain?comp=properties").header("x-ms-file-permission-key", first.as_str());
    assert_eq!(key(&world.send(&known).await), first);
    let kept = file("PUT share/plain?comp=properties").header("x-ms-file-permission", "preserve");
    assert_eq!(key(&world.send(&kept).await), first);
}

#[tokio::test]
async fn listings_show_what_is_asked_for_in_order() {
    let world = share(&["b", "A/", "c/", "Ba"]).await;
    let names = |text: &str| {
        let name = |part: &str| part[..part.find('<').expect("an end")].to_string();
        text.split("<Name>").skip(1).map(name).collect::<Vec<_>>().join(" ")
    };
    let list = |query: &str| file(&format!("GET share?restype=directory&comp=list{query}"));
    let plain = world.send(&list("")).await.text();
    assert_eq!(names(&plain), "A b Ba c");
    assert!(plain.contains("<Directory><Name>A</Name><Properties /></Directory>"), "{plain}");
    assert!(plain.contains("<File><Name>b</Name><Properties><Content-Length>8</Content-Length></Properties></File>"));
    assert_eq!(names(&world.send(&list("&prefix=B")).await.text()), "b Ba");
    let first = world.send(&list("&maxresults=3")).await.text();
    let marker = first.split_once("<NextMarker>").expect("a marker").1;
    let marker = &marker[..marker.find('<').expect("an end")];
    assert_eq!(names(&first), "A b Ba");
    assert_eq!(names(&world.send(&list(&format!("&maxresults=3&marker={marker}"))).await.text()), "c");
    let full = world.send(&list("&include=timestamps,Etag,Attributes,PermissionKey")).await.text();
    for part in
        ["<DirectoryId>0<", "<FileId>", "<CreationTime>", "<ChangeTime>", "<Etag>", "<Attributes>", "<PermissionKey>"]
    {
        assert!(full.contains(part), "{part} in {full}");
    }
    let extended = world.send(&list("").header("x-ms-file-extended-info", "true")).await.text();
    assert!(extended.contains("<FileId>") && !extended.contains("<Etag>"), "{extended}");
    for (query, code) in [
        ("&maxresults=0", "OutOfRangeQueryParameterValue"),
        ("&include=Everything", "InvalidQueryParameterValue"),
        ("&marker=%21", "InvalidQueryParameterValue"),
    ] {
        assert_eq!(world.send(&list(query)).await.code(), code, "{query}");
    }
}

#[tokio::test]
async fn a_rename_keeps_what_it_moves() {
    let world = share(&["from/", "from/sub/", "from/sub/f", "to/"]).await;
    write(&world, "from/sub/f", 0, b"content!").await;
    let before = world.send(&file("HEAD share/from/sub/f")).await;
    world.clock.advance_seconds(60);
    let rename = |to: &str, from: &str, query: &str| {
        let source = format!("http://127.0.0.1:10003/devstoreaccount1/share/{from}");
        file(&format!("PUT share/{to}?{query}comp=rename")).header("x-ms-file-rename-source", source)
    };
    let answer = world.send(&rename("to/here", "from", "restype=directory&")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(told(&world.send(&file("GET share/from/sub/f")).await), (404, "ParentNotFound"));
    assert_eq!(world.send(&file("GET share/to/here/sub/f")).await.body, b"content!");
    let answer = world.send(&rename("to/f", "to/here/sub/f", "")).await;
    for same in ["x-ms-file-id", "x-ms-file-creation-time", "x-ms-file-last-write-time"] {
        assert_eq!(answer.header(same), before.header(same), "{same}");
    }
    assert_ne!(answer.header("x-ms-file-change-time"), before.header("x-ms-file-change-time"));
    assert_ne!(answer.header("etag"), before.header("etag"));
    for (request, expected) in [
        (rename("to/here/sub/x", "to/here", "restype=directory&"), (400, "InvalidInput")),
        (rename("to/f", "to/missing", ""), (404, "ResourceNotFound")),
        (rename("to/here", "to/f", ""), (409, "ResourceAlreadyExists")),
        (
            rename("to/here", "to/f", "").header("x-ms-file-rename-replace-if-exists", "true"),
            (409, "ResourceTypeMismatch"),
        ),
        (rename("none/f", "to/f", ""), (404, "ParentNotFound")),
        (rename("to/F", "to/f", ""), (200, "")),
        (file("PUT share/x?comp=rename"), (400, "MissingRequiredHeader")),
        (file("PUT share/x?comp=rename").header("x-ms-file-rename-source", "to/f"), (400, "InvalidHeaderValue")),
    ] {
        assert_eq!(told(&world.send(&request).await), expected, "{} {:?}", request.path, request.headers);
    }
}

/// Opens a file as an SMB client would that keeps nothing.
async fn open(world: &World, path: &str, access: Access, share: ShareMode) -> HandleId {
    smb_clients::open(world, path, Claim { access, share }, CachingWanted::Nothing, Arc::new(Nobody)).await
}

#[tokio::test]
async fn what_smb_clients_have_open_is_respected_listed_and_closed() {
    let world = share(&["f"]).await;
    let reads = Access { read: true, write: false, delete: false };
    let handle = open(&world, "f", reads, ShareMode::NONE).await;
    for (request, expected) in [
        (file("GET share/f"), (409, "SharingViolation")),
        (file("GET share/f?comp=rangelist"), (409, "SharingViolation")),
        (file("PUT share/f?comp=metadata"), (409, "SharingViolation")),
        (file("PUT share/f?comp=properties").header("x-ms-content-length", "9"), (409, "SharingViolation")),
        (file("DELETE share/f"), (409, "SharingViolation")),
        (file("HEAD share/f"), (200, "")),
        (file("GET share?restype=directory&comp=list"), (200, "")),
    ] {
        assert_eq!(told(&world.send(&request).await), expected, "{} {}", request.method, request.path);
    }
    assert_eq!(told(&write(&world, "f", 0, b"x").await), (409, "SharingViolation"));
    assert_eq!(told(&create(&world, "f", 8).await), (409, "SharingViolation"));
    let listed = world.send(&file("GET share/f?comp=listhandles")).await.text();
    for part in [&format!("<HandleId>{}<", handle.0), "<Path>f<", "<ClientIp>127.0.0.1:5000<", "<AccessRight>Read<"] {
        assert!(listed.contains(part), "{part} in {listed}");
    }
    let below = file("GET share?comp=listhandles");
    assert!(world.send(&below).await.text().contains("<Entries />"), "only what is below has a handle");
    assert!(world.send(&below.header("x-ms-recursive", "true")).await.text().contains("<HandleId>"));
    let close = file("PUT share/f?comp=forceclosehandles").header("x-ms-handle-id", "*");
    let closed = world.send(&close).await;
    assert_eq!(closed.header("x-ms-number-of-handles-closed"), Some("1"));
    assert_eq!(world.send(&file("GET share/f")).await.status, 200);

    // To go with its last handle: refused, not listed, and gone when the handle is (promise F4).
    let deletes = Access { read: false, write: false, delete: true };
    let handle = open(&world, "f", deletes, ShareMode::ALL).await;
    let group = smb_clients::group(&world).await;
    world.app.shell.open_files.set_delete_pending(&group, handle, true).expect("it may");
    for line in ["GET share/f", "HEAD share/f", "DELETE share/f"] {
        assert_eq!(world.send(&file(line)).await.status, 409, "{line}");
    }
    assert_eq!(told(&world.send(&file("GET share/f")).await), (409, "SMBDeletePending"));
    assert!(world.send(&file("GET share?restype=directory&comp=list")).await.text().contains("<Entries />"));
    let close = file("PUT share?comp=forceclosehandles").header("x-ms-handle-id", "*").header("x-ms-recursive", "true");
    assert_eq!(world.send(&close).await.header("x-ms-number-of-handles-closed"), Some("1"));
    assert_eq!(told(&world.send(&file("GET share/f")).await), (404, "ResourceNotFound"));
}

#[tokio::test]
async fn links_are_of_nfs_shares() {
    let world = World::new().await;
    let nfs = file("PUT share?restype=share").header("x-ms-enabled-protocols", "NFS");
    assert_eq!(world.send(&nfs).await.status, 201);
    assert_eq!(world.send(&file("PUT smb-share?restype=share")).await.status, 201);
    let made = file("PUT share/f").header("x-ms-type", "file").header("x-ms-content-length", "4");
    let made = world.send(&made.header("x-ms-owner", "1000").header("x-ms-mode", "0640")).await;
    assert_eq!((made.header("x-ms-owner"), made.header("x-ms-mode")), (Some("1000"), Some("0640")));
    assert_eq!(made.header("x-ms-file-file-type"), Some("Regular"));
    write(&world, "f", 0, b"same").await;
    let link = |line: &str| file(line).header("x-ms-type", "file").header("x-ms-file-target-file", "/f");
    let linked = world.send(&link("PUT share/g?restype=hardlink")).await;
    assert_eq!((linked.status, linked.header("x-ms-link-count")), (201, Some("2")));
    assert_eq!(linked.header("x-ms-file-id"), made.header("x-ms-file-id"));
    let gone = world.send(&file("DELETE share/f")).await;
    assert_eq!((gone.status, gone.header("x-ms-link-count")), (202, Some("1")));
    assert_eq!(world.send(&file("GET share/g")).await.body, b"same");
    let symbolic = file("PUT share/s?restype=symboliclink").header("x-ms-link-text", "../some/where");
    assert_eq!(world.send(&symbolic).await.header("x-ms-file-file-type"), Some("SymLink"));
    let text = world.send(&file("GET share/s?restype=symboliclink")).await;
    assert_eq!((text.status, text.header("x-ms-link-text")), (200, Some("../some/where")));
    assert_eq!(world.send(&file("DELETE share/s")).await.status, 202);
    for request in [
        file("PUT smb-share/s?restype=symboliclink").header("x-ms-link-text", "x"),
        file("GET smb-share/s?restype=symboliclink"),
        link("PUT smb-share/g?restype=hardlink"),
    ] {
        assert_eq!(told(&world.send(&request).await), (409, "UnsupportedShareProtocol"), "{}", request.path);
    }
}

/// Promise E2: whatever happens to a file, a read that began ends with the version it began with; and a snapshot is one version.
#[tokio::test]
async fn a_read_goes_on_with_the_version_it_began_with() {
    const PIECE: usize = 100_000;
    let world = share(&[]).await;
    assert_eq!(create(&world, "f", 3 * PIECE as u64).await.status, 201);
    for (number, letter) in [b'a', b'b', b'c'].into_iter().enumerate() {
        assert_eq!(write(&world, "f", (number * PIECE) as u64, &vec![letter; PIECE]).await.status, 201);
    }
    let account = http::account::Account::development().name;
    let name = contract::names::ShareName::parse("share").expect("right");
    let path = contract::names::FilePath::parse("f", false).expect("right");
    let expectation = Expectation {
        operation: Service::File.rows().iter().find(|row| row.id == contract::OperationId::GetFile).expect("its row"),
        version: contract::ApiVersion::NEWEST_KNOWN,
        conditions: Default::default(),
        lease_id: None,
        keeps_versions: false,
    };
    let shell = &world.app.shell;
    let found = share::find(shell, &account, &name, None).await.expect("the share");
    let (_, _, mut reader) = read::content(shell, &found, &path, &expectation, None).await.expect("a read");
    let mut content = reader.next().await.expect("readable").expect("something").to_vec();
    assert!(content.len() < 3 * PIECE);
    // Overwritten, cut, replaced, deleted: none of it is seen.
    assert_eq!(write(&world, "f", PIECE as u64, &vec![b'x'; PIECE]).await.status, 201);
    let resize = file("PUT share/f?comp=properties").header("x-ms-content-length", "10");
    assert_eq!(world.send(&resize).await.status, 200);
    assert_eq!(create(&world, "f", 5).await.status, 201);
    assert_eq!(world.send(&file("DELETE share/f")).await.status, 202);
    while let Some(piece) = reader.next().await.expect("readable") {
        content.extend_from_slice(&piece);
    }
    let expected: Vec<u8> = [b'a', b'b', b'c'].into_iter().flat_map(|letter| vec![letter; PIECE]).collect();
    assert!(content == expected, "one version to its last byte");
}

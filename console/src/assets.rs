//! The pages: every file of `console/assets`, compiled in.

/// A file, as it is served under `/assets/`; `index.html` also as `/`.
pub struct Asset {
    pub name: &'static str,
    pub bytes: &'static [u8],
}

macro_rules! assets {
    ($($name:literal)*) => {
        pub const ASSETS: &[Asset] = &[$(Asset { name: $name, bytes: include_bytes!(concat!("../assets/", $name)) }),*];
    };
}

// One line for each file. A test compares it with the directory.
assets! {
    "api.js"
    "console.css"
    "dom.js"
    "format.js"
    "icon.svg"
    "index.html"
    "keys.js"
    "main.js"
    "router.js"
    "service/blob.js"
    "service/file.js"
    "service/queue.js"
    "service/table.js"
    "service/upload.js"
    "theme.js"
    "view/blob.js"
    "view/blobs.js"
    "view/concurrency.js"
    "view/containers.js"
    "view/entity.js"
    "view/file.js"
    "view/files.js"
    "view/handles.js"
    "view/hidden.js"
    "view/overview.js"
    "view/parts.js"
    "view/preview.js"
    "view/queue.js"
    "view/queues.js"
    "view/refused.js"
    "view/requests.js"
    "view/shares.js"
    "view/sign-in.js"
    "view/table.js"
    "view/tables.js"
    "widget/countdown.js"
    "widget/dialog.js"
    "widget/grid.js"
    "widget/notice.js"
    "widget/paged.js"
    "widget/pairs.js"
    "widget/search.js"
    "widget/tabs.js"
    "widget/tasks.js"
    "widgets.css"
    "xml.js"
}

pub fn find(name: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.name == name)
}

pub fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "json" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "woff2" => "font/woff2",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn files(root: &Path, within: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(within).expect("a directory") {
            let path = entry.expect("an entry").path();
            match path.is_dir() {
                true => files(root, &path, found),
                false => found.push(path.strip_prefix(root).expect("below").display().to_string()),
            }
        }
    }

    #[test]
    fn every_file_is_in_the_table() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
        let mut found = Vec::new();
        files(&root, &root, &mut found);
        found.sort();
        let mut listed: Vec<&str> = ASSETS.iter().map(|asset| asset.name).collect();
        listed.sort_unstable();
        assert_eq!(found, listed);
        for asset in ASSETS {
            assert_ne!(content_type(asset.name), "application/octet-stream", "{}", asset.name);
        }
    }
}

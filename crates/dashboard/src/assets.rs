//! The files of the page, compiled into the binary.

/// A file of the page.
pub(crate) struct Asset {
    pub(crate) path: &'static str,
    pub(crate) media_type: &'static str,
    pub(crate) bytes: &'static [u8],
    /// Whether the file is part of the login, and served without a session.
    pub(crate) is_login: bool,
}

const HTML: &str = "text/html; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SVG: &str = "image/svg+xml";

macro_rules! asset {
    ($path:literal, $media_type:expr, $is_login:expr) => {
        Asset {
            path: concat!("/", $path),
            media_type: $media_type,
            bytes: include_bytes!(concat!("../page/", $path)),
            is_login: $is_login,
        }
    };
}

/// All files of the page.
pub(crate) static ALL: &[Asset] = &[
    asset!("index.html", HTML, false),
    asset!("login.html", HTML, true),
    asset!("login.js", JS, true),
    asset!("style.css", CSS, true),
    asset!("icon.svg", SVG, true),
    asset!("app.js", JS, false),
    asset!("dom.js", JS, false),
    asset!("api.js", JS, false),
    asset!("model.js", JS, false),
    asset!("objects.js", JS, false),
    asset!("questions.js", JS, false),
    asset!("tree.js", JS, false),
    asset!("timeline.js", JS, false),
    asset!("views.js", JS, false),
    asset!("object.js", JS, false),
    asset!("yaml.js", JS, false),
    asset!("vendor/uPlot.esm.js", JS, false),
    asset!("vendor/uPlot.min.css", CSS, false),
];

pub(crate) fn find(path: &str) -> Option<&'static Asset> {
    ALL.iter().find(|asset| asset.path == path)
}

/// Returns the contents of all files of the page, for benchmarks of its size.
pub fn page_files() -> impl Iterator<Item = (&'static str, &'static [u8])> {
    ALL.iter().map(|asset| (asset.path, asset.bytes))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    /// The page must stay small: it is compiled into the binary, and loaded over slow connections.
    #[test]
    fn the_page_is_below_300_kib_gzipped() {
        let mut total = 0;
        for (_, bytes) in super::page_files() {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            gzip.write_all(bytes).unwrap();
            total += gzip.finish().unwrap().len();
        }
        assert!(total < 300 << 10, "{total} bytes");
    }

    /// The Content-Security-Policy blocks inline scripts, so a page that has some would not work.
    #[test]
    fn no_file_has_inline_script_or_loads_from_elsewhere() {
        for asset in super::ALL.iter().filter(|asset| asset.path.ends_with(".html")) {
            let text = std::str::from_utf8(asset.bytes).unwrap();
            assert!(
                !text.contains("<style") && !text.contains(" style=") && !text.contains("onclick"),
                "{}",
                asset.path
            );
            for script in text.split("<script").skip(1) {
                assert!(script.contains("src=\"/") && script.contains("></script>"), "{script}");
            }
            assert!(
                !text.contains("http:") && !text.contains("https:") && !text.contains("\"//"),
                "{}",
                asset.path
            );
        }
    }
}

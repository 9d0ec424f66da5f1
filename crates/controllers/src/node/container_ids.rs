//! Ids of simulated containers and images, in the format of real ones. They are a function of the container or image.

/// Returns the id of a container of a pod after this many restarts.
pub(crate) fn container_id(pod: &str, container: &str, restarts: i32) -> String {
    format!("containerd://{}", digest(&format!("{pod}/{container}/{restarts}")))
}

/// Returns the id of an image.
pub(crate) fn image_id(image: &str) -> String {
    format!("{}@sha256:{}", repository(image), digest(image))
}

/// Returns an image without its tag or digest. A colon before the last slash belongs to the port of a registry.
fn repository(image: &str) -> &str {
    let image = image.split_once('@').map_or(image, |(name, _)| name);
    match image.rfind(':') {
        Some(colon) if !image[colon..].contains('/') => &image[..colon],
        _ => image,
    }
}

/// Returns 64 hexadecimal digits: four FNV-1a hashes of the text followed by the number of the round. Not for secrets.
fn digest(text: &str) -> String {
    let round = |round: u8| {
        let bytes = text.bytes().chain([round]);
        bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    };
    (0..4).map(|number| format!("{:016x}", round(number))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_lose_their_tag_only() {
        assert!(image_id("localhost:5000/web:1.2").starts_with("localhost:5000/web@sha256:"));
        assert!(image_id("localhost:5000/web").starts_with("localhost:5000/web@sha256:"));
        assert_eq!(container_id("p", "c", 0).len(), "containerd://".len() + 64);
        assert_ne!(container_id("p", "c", 0), container_id("p", "c", 1));
    }
}

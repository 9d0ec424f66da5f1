//! Makes the certificates for webhooks.

use jiff::Timestamp;

use super::plan::{EARLY, VALID};
use super::state::{Key, Pair};
use crate::tls::{self, Facts, Validity};

/// Makes a certificate for a server with these names, and the CA that signs it. The key of the CA is discarded.
pub(super) fn issue(operator: &str, names: &[String], now: Timestamp) -> Result<Pair, rcgen::Error> {
    // The time makes CA names unique within a bundle.
    let ca_subject = format!("{operator} webhooks CA {}", now.as_second());
    let subject = format!("{operator} webhooks");
    let issued = tls::issue((&subject, &ca_subject), names, Validity::from(now, EARLY, VALID))?;
    let facts =
        Facts::of_pem(issued.certificate.as_bytes()).map_err(|_| rcgen::Error::CouldNotParseCertificate)?;
    Ok(Pair { ca: issued.ca, certificate: issued.certificate, key: Key::new(issued.key), facts })
}

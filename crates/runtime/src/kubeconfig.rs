//! Reading kubeconfigs without showing them.
//!
//! When a kubeconfig cannot be parsed, kube's error quotes the lines around the place, and with them tokens, passwords
//! and keys. An operator prints its errors to a log that more people read than the kubeconfig. The errors of this module
//! name the place alone.

use std::error::Error as _;

use kube::Config;
use kube::config::KubeconfigError;
use serde::de::Error as _;

/// The configuration that [`Config::infer`] finds: that of the current kubeconfig, or of the pod that this process runs
/// in.
///
/// # Errors
/// If there is no usable configuration. The error does not quote the kubeconfig.
pub async fn infer() -> Result<Config, kube::Error> {
    Config::infer().await.map_err(|error| {
        let cause = error.source().and_then(|source| source.downcast_ref());
        match cause.and_then(unquoted) {
            Some(unquoted) => kube::Error::InferKubeconfig(unquoted),
            None => kube::Error::InferConfig(error),
        }
    })
}

/// Takes the lines that an error quotes from a kubeconfig out of it; the line and column remain.
///
/// ```
/// use evenkeel_runtime::kubeconfig::without_quotes;
/// use kube::config::Kubeconfig;
///
/// let text = "users: [{name: me, user: {token: s3cret}}]\nclusters: [";
/// let error = Kubeconfig::from_yaml(text).map_err(without_quotes).unwrap_err();
/// assert!(!error.to_string().contains("s3cret"), "{error}");
/// ```
pub fn without_quotes(error: KubeconfigError) -> KubeconfigError {
    unquoted(&error).unwrap_or(error)
}

/// The error without what it quotes; `None` if it quotes nothing.
fn unquoted(error: &KubeconfigError) -> Option<KubeconfigError> {
    let KubeconfigError::Parse(error) = error else { return None };
    // The message quotes values, too, such as a text in the place of a list.
    let message = match error.location() {
        Some(place) => format!("line {}, column {}", place.line(), place.column()),
        None => "not a kubeconfig".to_owned(),
    };
    Some(KubeconfigError::Parse(Box::new(serde_saphyr::Error::custom(message))))
}

#[cfg(test)]
mod tests {
    use kube::config::Kubeconfig;

    use super::*;

    const PLANTED: &str = "planted-secret-c0ffee";

    #[test]
    fn an_error_of_a_kubeconfig_names_the_place_and_quotes_nothing() {
        for text in [
            format!("users:\n- name: u\n  user:\n    token: {PLANTED}\n  x: ]\n"),
            format!("users:\n- name: u\n  user: {PLANTED}\n"),
            format!("users: {PLANTED}\n"),
            format!("- {PLANTED}\n"),
            format!("users:\n- name: u\n  user:\n    token: [{PLANTED}]\n"),
            format!("users:\n- name: u\n  user:\n    token: a\n    {PLANTED}: b\n    {PLANTED}: c\n"),
        ] {
            let error = without_quotes(Kubeconfig::from_yaml(&text).unwrap_err());
            let shown = format!("{error} {error:?} {error:#?}");
            assert!(!shown.contains(PLANTED), "{text}{shown}");
            assert!(shown.contains("line "), "{text}{shown}");
        }
        let other = without_quotes(KubeconfigError::CurrentContextNotSet);
        assert_eq!(other.to_string(), KubeconfigError::CurrentContextNotSet.to_string());
    }
}

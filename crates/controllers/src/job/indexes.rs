//! Completion indexes: which are done, as text and as a set.

use std::collections::BTreeSet;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod};

/// On a pod of an indexed Job: its index.
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// Whether each pod of the Job has an index.
pub(super) fn is_indexed(job: &Job) -> bool {
    job.spec.as_ref().and_then(|spec| spec.completion_mode.as_deref()) == Some("Indexed")
}

/// The index of a pod.
pub(super) fn of(pod: &Pod) -> Option<i32> {
    pod.metadata.annotations.as_ref()?.get(INDEX)?.parse().ok()
}

/// Reads `0,2-4`.
pub(super) fn parse(text: &str) -> BTreeSet<i32> {
    let ranges = text.split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<i32>().ok()?..=last.parse::<i32>().ok()?)
    });
    ranges.flatten().collect()
}

/// Writes `0,2-4`: two in a row are listed, more are a range.
pub(super) fn text(indexes: &BTreeSet<i32>) -> String {
    let mut parts: Vec<(i32, i32)> = Vec::new();
    for index in indexes {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == *index => *last = *index,
            _ => parts.push((*index, *index)),
        }
    }
    let part = |(first, last): (i32, i32)| match last - first {
        0 => first.to_string(),
        1 => format!("{first},{last}"),
        _ => format!("{first}-{last}"),
    };
    parts.into_iter().map(part).collect::<Vec<_>>().join(",")
}

/// Gives a pod its index: in its name, its labels, its host name and its environment.
pub(super) fn give(pod: &mut Pod, job: &str, index: i32) {
    pod.metadata.generate_name = Some(format!("{job}-{index}-"));
    pod.metadata.annotations.get_or_insert_default().insert(INDEX.to_owned(), index.to_string());
    pod.metadata.labels.get_or_insert_default().insert(INDEX.to_owned(), index.to_string());
    let Some(spec) = pod.spec.as_mut() else { return };
    spec.hostname = Some(format!("{job}-{index}"));
    for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
        tell(container);
    }
}

fn tell(container: &mut Container) {
    const NAME: &str = "JOB_COMPLETION_INDEX";
    let variables = container.env.get_or_insert_default();
    if variables.iter().all(|variable| variable.name != NAME) {
        let field_path = format!("metadata.labels['{INDEX}']");
        let source = EnvVarSource {
            field_ref: Some(ObjectFieldSelector { api_version: None, field_path }),
            ..EnvVarSource::default()
        };
        variables.push(EnvVar { name: NAME.to_owned(), value: None, value_from: Some(source) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_written_in_ranges() {
        let set = BTreeSet::from([0, 2, 3, 5, 6, 7, 9]);
        assert_eq!(text(&set), "0,2,3,5-7,9");
        assert_eq!(parse("0,2,3,5-7,9"), set);
        assert_eq!(parse(""), BTreeSet::new());
    }
}

//! Containers and their probes.

use super::{Object, image, set_number, set_text, text};

pub(super) fn container(object: &mut Object) {
    let policy = image::pull_policy(text(object, "image"));
    set_text(object, "imagePullPolicy", policy);
    set_text(object, "terminationMessagePath", "/dev/termination-log");
    set_text(object, "terminationMessagePolicy", "File");
}

pub(super) fn probe(object: &mut Object) {
    set_number(object, "timeoutSeconds", 1);
    set_number(object, "periodSeconds", 10);
    set_number(object, "successThreshold", 1);
    set_number(object, "failureThreshold", 3);
}

pub(super) fn http_get(object: &mut Object) {
    set_text(object, "path", "/");
    set_text(object, "scheme", "HTTP");
}

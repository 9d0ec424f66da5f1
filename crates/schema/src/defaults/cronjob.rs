//! CronJobs.

use super::{Object, child, set, set_text};

pub(super) fn cron_job(object: &mut Object) {
    let spec = child(object, "spec");
    set_text(spec, "concurrencyPolicy", "Allow");
    set(spec, "suspend", false);
    set(spec, "successfulJobsHistoryLimit", 3);
    set(spec, "failedJobsHistoryLimit", 1);
}

//! CronJobs in virtual time. The clock of a test begins at midnight UTC on the first of January 2026.

use std::time::Duration;

use evenkeel_cluster::Cluster;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use serde_json::{Value, json};

use crate::world::{Outcome, object, with_nodes};

fn cron(spec: Value) -> Value {
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
    let mut cron = json!({"metadata": {"name": "tick"}, "spec": {"successfulJobsHistoryLimit": 100,
        "jobTemplate": {"spec": {"template": {"spec": pod}}}}});
    for (field, value) in spec.as_object().unwrap() {
        cron["spec"][field] = value.clone();
    }
    cron
}

/// Returns the scheduled times of the Jobs, from their annotations.
async fn scheduled(cluster: &Cluster) -> kube::Result<Vec<String>> {
    let jobs = cluster.list::<Job>().await?;
    let time = |job: Job| job.metadata.annotations?.remove("batch.kubernetes.io/cronjob-scheduled-timestamp");
    let mut times: Vec<String> = jobs.into_iter().filter_map(time).collect();
    times.sort();
    Ok(times)
}

async fn pass(cluster: &Cluster, hours: u64) -> Outcome {
    for _ in 0..hours * 2 {
        cluster.advance(Duration::from_secs(1800)).await;
        cluster.settled().await;
    }
    Ok(())
}

/// `@every` counts from the creation of the CronJob, then from each time that it ran.
#[test]
fn a_schedule_of_every_hour_runs_by_the_hour_from_its_creation() {
    with_nodes(1, |cluster| async move {
        cluster.advance(Duration::from_secs(600)).await;
        let cron = cron(json!({"schedule": "@every 1h"}));
        let made = cluster.api::<CronJob>().create(&Default::default(), &object(cron)).await?;
        let created = made.metadata.creation_timestamp.unwrap().0;
        pass(&cluster, 4).await?;
        let expected: Vec<String> =
            (1..=3).map(|hour| (created + jiff::SignedDuration::from_hours(hour)).to_string()).collect();
        assert_eq!(scheduled(&cluster).await?[..3], expected);
        Ok(())
    });
}

#[test]
fn a_schedule_in_a_named_time_zone_runs_at_its_local_times() {
    with_nodes(1, |cluster| async move {
        let cron = cron(json!({"schedule": "30 19,20 * * *", "timeZone": "America/New_York"}));
        cluster.api::<CronJob>().create(&Default::default(), &object(cron)).await?;
        pass(&cluster, 2).await?;
        assert_eq!(scheduled(&cluster).await?, ["2025-12-31T19:30:00-05:00", "2025-12-31T20:30:00-05:00"]);
        let status = cluster.get::<CronJob>("tick").await?.status.unwrap();
        assert_eq!(status.last_schedule_time.unwrap().0.to_string(), "2026-01-01T01:30:00Z");
        Ok(())
    });
}

//! Services outside of the cluster, with names that they give themselves.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_cluster::{Cluster, Outside};
use evenkeel_explore::Oracle;
use evenkeel_runtime::finalizer::Phase;
use evenkeel_runtime::{Action, Controller, Ctx, Error, Result};
use kube::ResourceExt as _;
use kube::api::Patch;
use parking_lot::Mutex;
use serde_json::json;

use crate::ensemble::{Ensemble, change, create, delete, prepare};

#[derive(Clone)]
struct Cloud {
    door: Outside,
    /// The disks by the number that the cloud gives them, with their tag.
    disks: Arc<Mutex<BTreeMap<u32, String>>>,
    form: Form,
    mine: Arc<Mutex<Vec<u32>>>,
}

#[derive(Clone, Copy, PartialEq)]
enum Form {
    Right,
    /// Removes the disks that it remembers.
    Remembers,
    /// Takes "there is no such disk" for an error.
    Insists,
}

impl Cloud {
    fn new(cluster: &Cluster, form: Form) -> Self {
        let all = Self {
            door: cluster.outside("disks", "cloud"),
            disks: Arc::default(),
            form,
            mine: Arc::default(),
        };
        let disks = all.disks.clone();
        all.door.shows(move || json!(disks.lock().values().collect::<Vec<_>>()));
        all
    }

    async fn find(&self, tag: &str) -> Result<Option<u32>> {
        let find = async { self.disks.lock().iter().find(|(_, it)| *it == tag).map(|(number, _)| *number) };
        Ok(self.door.ask("find", find).await?)
    }

    async fn make(&self, tag: &str) -> Result<u32> {
        let make = async {
            let mut disks = self.disks.lock();
            let number = disks.keys().last().map_or(1, |last| last + 1);
            disks.insert(number, tag.to_owned());
            number
        };
        Ok(self.door.call("make", make).await?)
    }

    /// Removes a disk. Returns whether there was one.
    async fn remove(&self, number: u32) -> Result<bool> {
        Ok(self.door.call("remove", async { self.disks.lock().remove(&number).is_some() }).await?)
    }
}

async fn reconcile(ensemble: Arc<Ensemble>, ctx: Ctx<Cloud>) -> Result<Action> {
    let (cloud, name) = (ctx.state(), ensemble.name_any());
    let noted = ensemble.annotations().get("disk").and_then(|disk| disk.parse::<u32>().ok());
    let action = ctx.finalizer(&ensemble, "example.com/disk", async |phase| -> Result<Action> {
        if let Phase::Cleanup = phase {
            match cloud.form {
                Form::Right => {
                    if let Some(disk) = cloud.find(&name).await? {
                        cloud.remove(disk).await?;
                    }
                }
                Form::Remembers => {
                    let mine = cloud.mine.lock().clone();
                    for disk in mine {
                        cloud.remove(disk).await?;
                    }
                }
                Form::Insists => {
                    if !cloud.remove(noted.unwrap_or_default()).await? {
                        return Err(Error::message("there is no such disk"));
                    }
                }
            }
            return Ok(Action::await_change());
        }
        let disk = match cloud.find(&name).await? {
            Some(disk) => disk,
            None => cloud.make(&name).await?,
        };
        if cloud.form == Form::Remembers && noted.is_none() {
            cloud.mine.lock().push(disk);
        }
        if noted != Some(disk) {
            let patch = json!({"metadata": {"annotations": {"disk": disk.to_string()}}});
            ctx.patch(&*ensemble, &Patch::Merge(patch)).await?;
        }
        Ok(Action::await_change())
    });
    Ok(action.await?)
}

async fn life(cluster: Cluster, form: Form) -> kube::Result<()> {
    prepare(&cluster).await?;
    let cloud = Cloud::new(&cluster, form);
    cluster.run(move || {
        // Another process remembers nothing.
        Controller::new("disks", reconcile).state(Cloud { mine: Arc::default(), ..cloud.clone() })
    });
    create(&cluster, 1).await?;
    change(&cluster, json!({"config": "two"})).await?;
    delete(&cluster).await
}

#[test]
fn disks_that_are_found_by_their_tag_pass() {
    crate::passes("disks", |cluster| life(cluster, Form::Right));
}

#[test]
fn disks_that_are_remembered_are_found() {
    crate::finds("disks_remembered", &[Oracle::SameEnd], |cluster| life(cluster, Form::Remembers));
}

#[test]
fn a_disk_that_must_be_there_is_found() {
    crate::finds("disks_insisted", &[Oracle::SameEnd, Oracle::Rest], |cluster| life(cluster, Form::Insists));
}

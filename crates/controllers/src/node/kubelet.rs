//! The adapter of the nodes: looks at each pod that is bound to one of them, and writes the result.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use evenkeel_env::Env;
use evenkeel_runtime::{
    Action, Controller, Ctx, Event, Predicate, Request, Result, ResultExt, Source, Trigger,
};
use evenkeel_tree::Tree;
use kube::Resource as _;
use kube::core::ApiResource;
use kube::core::params::{DeleteParams, Preconditions};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::addresses::Addresses;
use super::behaviour::InvalidWord;
use super::bounds::{Effort, PrintRoom, Printed};
use super::container::{Note, Now};
use super::events::EventBudgets;
use super::lifecycle::{self, PodMemory, Step, Surroundings};
use super::logs::Logs;
use super::references::{self, Found, Missing, Reference, Referent};
use super::rules::Rules;
use super::script::{Site, Volumes};
use super::status::{CONTAINERS, EPHEMERAL_CONTAINERS, Host, INIT_CONTAINERS, find, name};
use super::{MANAGER, NodeOptions, is_stopped, registration, script};
use crate::clock::{self, Reminders};
use crate::controller_ref::controller_of_kind;
use crate::key_channel;
use crate::kinds::{CONFIG_MAP, JOB, NODE, Node, PERSISTENT_VOLUME_CLAIM, POD, Pod, SECRET, SERVICE_ACCOUNT};
use crate::metadata_informers::Metadata;
use crate::object::{Kind, Object, OfKind, write_status};
use crate::pod::{self, HostPort};

/// How many pods are reconciled at once.
const CONCURRENT: usize = 8;

/// The label with a pod's completion index.
const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// The resourceVersion of an object, and the keys in its data at that version.
type KnownKeys = (String, BTreeSet<String>);

/// The state that the kubelets of all nodes share.
#[derive(Debug)]
struct Kubelets {
    count: usize,
    /// The nodes that have stopped.
    stopped: Mutex<BTreeSet<usize>>,
    rules: Rules,
    logs: Logs,
    addresses: Mutex<BTreeMap<usize, Addresses>>,
    /// What the nodes remember of pods that are not at rest, by uid.
    memories: Mutex<BTreeMap<String, PodMemory>>,
    /// The pods on the nodes.
    known: Mutex<BTreeSet<Request>>,
    /// The pods that wait for a missing object, by that object.
    waiting: Mutex<BTreeMap<(Referent, Request), BTreeSet<Request>>>,
    /// The keys of ConfigMaps and Secrets at a resource version, so that many pods share one request.
    keys: Mutex<BTreeMap<(Referent, Request), KnownKeys>>,
    /// The host ports that the pods on each node use, by the uid of the pod.
    ports: Mutex<BTreeMap<usize, BTreeMap<String, BTreeSet<HostPort>>>>,
    /// How many pods of a Job, or of one of its indexes, have run, for lists of exit codes.
    job_runs: Mutex<BTreeMap<(String, String), i32>>,
    /// The files that commands write.
    volumes: Volumes,
    /// The room for what commands print.
    prints: PrintRoom,
    budgets: EventBudgets,
    reminders: Reminders,
}

/// The controller that runs the pods of all nodes.
pub(crate) fn kubelet(env: &Env, options: &NodeOptions) -> Controller<Object> {
    let (reminders, due) = Reminders::channel();
    let (looks, to_look_at) = key_channel::channel(env, "kubelet: pods whose rules changed");
    let kubelets = Arc::new(Kubelets {
        count: options.count,
        stopped: Mutex::default(),
        rules: options.rules.clone(),
        logs: options.logs.clone(),
        addresses: Mutex::default(),
        memories: Mutex::default(),
        known: Mutex::default(),
        waiting: Mutex::default(),
        keys: Mutex::default(),
        ports: Mutex::default(),
        job_runs: Mutex::default(),
        volumes: Volumes::default(),
        prints: PrintRoom::default(),
        budgets: EventBudgets::default(),
        reminders,
    });
    let (ours, gone, ruled) = (kubelets.clone(), kubelets.clone(), Arc::downgrade(&kubelets));
    let by_nodes = kubelets.clone();
    options.rules.listen(move || {
        let known = ruled.upgrade().map(|kubelets| kubelets.known.lock().clone());
        known.into_iter().flatten().for_each(|key| looks.send(key));
    });
    let mut controller = Controller::new_with("kubelet", POD.source(), reconcile)
        .filter(Predicate::new(move |event: &Event<Pod>| ours.node_of(event.object()).is_some()))
        .watches_with(POD.source(), Trigger::events(move |event| gone.follow(event)))
        .watches_with(NODE.source(), Trigger::events(move |event| by_nodes.follow_node(event)))
        .stream("restart", due)
        .stream("rules", to_look_at);
    for (referent, kind) in REFERENTS {
        let waiting = kubelets.clone();
        controller = if referent.is_watched_whole() {
            let appears = Trigger::events(move |event: &Event<Object>| waiting.appeared(referent, event));
            controller.watches_with(kind.source(), appears)
        } else {
            let appears = Trigger::events(move |event: &Event<Metadata>| waiting.appeared(referent, event));
            controller.watches_with(Source::of(resource(kind)), appears)
        };
    }
    controller.field_manager(MANAGER).max_concurrent(CONCURRENT).state(kubelets)
}

/// The kinds that pods refer to.
static REFERENTS: [(Referent, &Kind); 4] = [
    (Referent::ConfigMap, &CONFIG_MAP),
    (Referent::Secret, &SECRET),
    (Referent::Claim, &PERSISTENT_VOLUME_CLAIM),
    (Referent::ServiceAccount, &SERVICE_ACCOUNT),
];

fn kind_of(referent: Referent) -> &'static Kind {
    REFERENTS.iter().find(|(known, _)| *known == referent).map_or(&CONFIG_MAP, |(_, kind)| *kind)
}

fn resource(kind: &'static Kind) -> ApiResource {
    ApiResource::erase::<Object>(&kind)
}

impl Kubelets {
    /// Returns the index of the simulated node that the pod is bound to.
    fn node_of(&self, pod: &Pod) -> Option<usize> {
        self.index_of(pod::node_name(pod)?)
    }

    /// Returns the index of the simulated node with this name.
    fn index_of(&self, name: &str) -> Option<usize> {
        let number: usize = name.strip_prefix("node-")?.parse().ok()?;
        (1..=self.count).contains(&number).then(|| number - 1)
    }

    /// Follows which nodes have stopped. Returns the pods to look at again: those of a node that has started again.
    fn follow_node(&self, event: &Event<Node>) -> Vec<Request> {
        let Some(node) = self.index_of(event.object().name()) else { return Vec::new() };
        let stopped = event.new_object().is_some_and(|node| is_stopped(node));
        let mut known = self.stopped.lock();
        if stopped {
            known.insert(node);
            return Vec::new();
        }
        match known.remove(&node) && event.new_object().is_some() {
            true => self.known.lock().iter().cloned().collect(),
            false => Vec::new(),
        }
    }

    /// Follows the addresses of the pods. Triggers no reconcile.
    fn follow(&self, event: &Event<Pod>) -> Option<Request> {
        let pod = event.object();
        let (node, uid) = (self.node_of(pod)?, pod.metadata.uid.as_deref()?);
        match event.new_object() {
            Some(pod) => {
                if let Some(address) = pod.str("status/podIP") {
                    self.addresses.lock().entry(node).or_default().observe(node, uid, address);
                }
                if pod::is_finished(pod) {
                    self.release_ports(node, uid);
                }
                if event.old().is_none_or(|old| pod::node_name(old).is_none()) {
                    self.known.lock().insert(Request::of(&**pod));
                }
            }
            None => {
                self.addresses.lock().entry(node).or_default().forget(uid);
                self.release_ports(node, uid);
                self.memories.lock().remove(uid);
                self.logs.forget(uid);
                self.volumes.forget(uid);
                self.known.lock().remove(&Request::of(&**pod));
            }
        }
        None
    }

    fn release_ports(&self, node: usize, uid: &str) {
        if let Some(ports) = self.ports.lock().get_mut(&node) {
            ports.remove(uid);
        }
    }

    /// Reserves the host ports of a pod. If another pod uses one of them, returns why the node refuses the pod.
    fn take_ports(&self, node: usize, uid: &str, pod: &Pod) -> Option<(&'static str, String)> {
        let wanted = pod::host_ports(pod);
        if wanted.is_empty() {
            return None;
        }
        let mut nodes = self.ports.lock();
        let taken = nodes.entry(node).or_default();
        let others = taken.iter().filter(|(other, _)| *other != uid);
        if others.into_iter().any(|(_, ports)| pod::ports_conflict(ports, &wanted)) {
            let message =
                "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports";
            return Some(("NodePorts", message.to_owned()));
        }
        taken.insert(uid.to_owned(), wanted);
        None
    }

    /// Returns the pods that wait for the changed object.
    fn appeared<K: evenkeel_runtime::Object>(&self, referent: Referent, event: &Event<K>) -> Vec<Request> {
        let key = (referent, Request::of(&**event.object()));
        if event.new_object().is_none() {
            self.keys.lock().remove(&key);
            return Vec::new();
        }
        self.waiting.lock().remove(&key).into_iter().flatten().collect()
    }

    /// Counts a new pod of a Job. Returns how many earlier pods that Job, or that index, had.
    fn earlier_runs(&self, pod: &Pod) -> i32 {
        let Some(owner) = controller_of_kind(&pod.metadata, &JOB) else { return 0 };
        let behaviours = self.rules.behaviours(pod);
        let counted = pod.list(CONTAINERS.0).iter().any(|container| {
            let image = container.str("image").unwrap_or_default();
            let behaviour = behaviours.of(name(container), image);
            behaviour.exit_codes.is_some_and(|codes| codes.len() > 1)
        });
        if !counted {
            return 0;
        }
        let index = pod.label(COMPLETION_INDEX).unwrap_or_default();
        let mut runs = self.job_runs.lock();
        let runs = runs.entry((owner.uid.clone(), index.to_owned())).or_default();
        *runs += 1;
        *runs - 1
    }
}

async fn reconcile(pod: Arc<Pod>, ctx: Ctx<Kubelets>) -> Result<Action> {
    let kubelets = ctx.state();
    let (Some(node), Some(uid)) = (kubelets.node_of(&pod), pod.metadata.uid.as_deref()) else {
        return Ok(Action::await_change());
    };
    if kubelets.stopped.lock().contains(&node) {
        return Ok(Action::await_change());
    }
    let missing = match lifecycle::needs_references(&pod) {
        true => missing(&ctx, &pod).await?,
        false => Missing::default(),
    };
    let mut memory = kubelets.memories.lock().remove(uid).unwrap_or_default();
    let step = look(&ctx, &pod, (node, uid), &missing, &mut memory);
    // Nothing needs to be remembered of a pod at rest: its status shows when its containers started.
    let at_rest = step.status.is_none() && step.wakes == Default::default() && !pod.is_deleting();
    if !at_rest || !missing_nothing(&missing) || memory.has_runs() {
        kubelets.memories.lock().insert(uid.to_owned(), memory);
    }
    finish(&ctx, &pod, (node, uid), step).await
}

fn missing_nothing(missing: &Missing) -> bool {
    *missing == Missing::default()
}

/// Moves a pod forward.
fn look(
    ctx: &Ctx<Kubelets>,
    pod: &Pod,
    (node, uid): (usize, &str),
    missing: &Missing,
    memory: &mut PodMemory,
) -> Step {
    let kubelets = ctx.state();
    let is_new = !pod.has("status/startTime") && !pod.is_deleting();
    let host = Host {
        address: registration::address(node),
        pod_address: kubelets.addresses.lock().entry(node).or_default().of(node, uid),
    };
    let behaviours = kubelets.rules.behaviours(pod);
    let behaviour = |container: &str, image: &str| behaviours.of(container, image);
    let now = Now { time: clock::seconds(ctx.now()), instant: Instant::now() };
    let effort = Effort::new();
    let interpret = |container: &Tree, restarts: i32| {
        let (volumes, prints, effort) = (&kubelets.volumes, &kubelets.prints, &effort);
        let started = (now.instant, now.time);
        script::interpret(container, &Site { pod, node, volumes, prints, effort, started, restarts })
    };
    let around = Surroundings {
        host: &host,
        now,
        behaviour: &behaviour,
        interpret: &interpret,
        missing,
        refusal: if is_new { kubelets.take_ports(node, uid, pod) } else { None },
    };
    if is_new {
        memory.earlier_runs = kubelets.earlier_runs(pod);
    }
    let mut step = lifecycle::step(pod, &around, memory);
    if !step.started.is_empty() {
        step.notes.extend(invalid_words(behaviours.invalid));
    }
    step
}

/// Returns one warning for each annotation that cannot be read.
fn invalid_words(invalid: Vec<InvalidWord>) -> impl Iterator<Item = Note> {
    invalid.into_iter().map(|word| Note::warning("InvalidBehaviour", word.to_string()))
}

/// Writes the result of a step.
async fn finish(ctx: &Ctx<Kubelets>, pod: &Pod, (node, uid): (usize, &str), step: Step) -> Result<Action> {
    let kubelets = ctx.state();
    if let Some(status) = &step.status {
        let written = write_status(ctx, &POD, pod, status).await.ignore_not_found()?;
        // If the pod is gone, its log would never be dropped.
        if written.is_some() {
            for (container, lines) in step.started {
                begin_log(ctx, uid, &container, lines, status);
            }
        }
    }
    kubelets.budgets.tell(ctx, node, pod, step.notes);
    if step.remove {
        remove(ctx, pod).await?;
        return Ok(Action::await_change());
    }
    kubelets.reminders.set(ctx.request(), step.wakes.upkeep);
    Ok(step.wakes.work.map_or_else(Action::await_change, Action::requeue))
}

/// Begins the log of a container's run.
fn begin_log(ctx: &Ctx<Kubelets>, uid: &str, container: &str, lines: Printed, status: &Tree) {
    let lists = [CONTAINERS, INIT_CONTAINERS, EPHEMERAL_CONTAINERS];
    let status = lists.iter().map(|(_, list)| find(status.list(list), container)).find(|it| !it.is_null());
    let restarts = status.and_then(|status| status.i32("restartCount")).unwrap_or(0);
    ctx.state().logs.begin(uid, container, restarts, clock::seconds(ctx.now()), lines);
}

async fn remove(ctx: &Ctx<Kubelets>, pod: &Pod) -> Result<()> {
    let preconditions = Preconditions { uid: pod.metadata.uid.clone(), resource_version: None };
    let params = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() }
        .preconditions(preconditions);
    ctx.kind(&POD).delete_with(&Request::of(pod), &params).await?;
    Ok(())
}

/// Returns which objects that a pod refers to are missing. When one of them appears, the pod is looked at again.
async fn missing(ctx: &Ctx<Kubelets>, pod: &Pod) -> Result<Missing> {
    let mut missing = Missing::default();
    for reference in references::of(pod) {
        let key = Request::new(pod.metadata.namespace.as_deref(), reference.name.as_str());
        // Registered before the objects are read, so that an object that appears in between is not missed.
        let entry = (reference.referent, key.clone());
        ctx.state().waiting.lock().entry(entry.clone()).or_default().insert(ctx.request().clone());
        let found = find_referent(ctx, &reference, &key).await?;
        if found == Found::All {
            forget_waiting(ctx.state(), &entry, ctx.request());
        }
        missing.note(pod, &reference, &found);
    }
    Ok(missing)
}

fn forget_waiting(kubelets: &Kubelets, entry: &(Referent, Request), pod: &Request) {
    let mut waiting = kubelets.waiting.lock();
    if let Some(pods) = waiting.get_mut(entry) {
        pods.remove(pod);
        if pods.is_empty() {
            waiting.remove(entry);
        }
    }
}

async fn find_referent(ctx: &Ctx<Kubelets>, reference: &Reference, key: &Request) -> Result<Found> {
    let kind = kind_of(reference.referent);
    if reference.referent.is_watched_whole() {
        let present = ctx.kind(kind).get(key)?;
        return Ok(match present {
            None => Found::Nothing,
            Some(claim) if reference.referent == Referent::Claim && !claim.is("status/phase", "Bound") => {
                Found::NotBound
            }
            Some(_) => Found::All,
        });
    }
    let Some(present) = ctx.objects::<Metadata>(resource(kind)).get(key)? else { return Ok(Found::Nothing) };
    if reference.keys.is_empty() {
        return Ok(Found::All);
    }
    let version = present.meta().resource_version.clone().unwrap_or_default();
    let entry = (reference.referent, key.clone());
    let lacks =
        |keys: &BTreeSet<String>| reference.keys.iter().find(|wanted| !keys.contains(*wanted)).cloned();
    let known =
        ctx.state().keys.lock().get(&entry).filter(|known| known.0 == version).map(|known| lacks(&known.1));
    let lacking = match known {
        Some(lacking) => lacking,
        None => {
            let Some(object) = ctx.kind(kind).fetch(key).await? else { return Ok(Found::Nothing) };
            let keys = ["data", "binaryData"].iter().flat_map(|part| object.entries(part));
            let keys: BTreeSet<String> = keys.map(|(key, _)| key.to_owned()).collect();
            let lacking = lacks(&keys);
            let version = object.metadata.resource_version.clone().unwrap_or_default();
            ctx.state().keys.lock().insert(entry, (version, keys));
            lacking
        }
    };
    Ok(lacking.map_or(Found::All, Found::NotKey))
}

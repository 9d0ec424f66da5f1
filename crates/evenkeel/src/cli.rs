//! The command line of an operator, for its `main`.
//!
//! ```no_run
//! use evenkeel::cli::Operator;
//! # fn controllers(manager: evenkeel::Manager) -> evenkeel::Manager { manager }
//!
//! fn main() -> std::process::ExitCode {
//!     Operator::new("my-operator", controllers).version(env!("CARGO_PKG_VERSION")).main()
//! }
//! ```
//!
//! | arguments | what it does |
//! |---|---|
//! | none | runs against the current kubeconfig, or the cluster of the pod that it runs in |
//! | `--embedded` | runs against a cluster in this process, which `kubectl` can reach (feature `cluster`) |
//! | `--samples` | applies the samples too |
//! | `--leader-elect` | works only while it holds a lease, so that only one of several replicas works |
//! | `--health-probe-bind-address :8081` | serves `/healthz` and `/readyz` at this address |
//! | `--metrics-bind-address :8443` | serves `/metrics` at this address, over TLS and only to those who may read it |
//! | `--metrics-secure=false` | serves `/metrics` without TLS, to everybody |
//! | `--webhook-bind-address :9443` | serves the webhooks at this address (feature `webhook-server`) |
//! | `--webhook-cert-dir /certs` | reads the webhooks' certificate from `tls.crt` and `tls.key` there, instead of making it |
//! | `--webhook-url https://192.0.2.1:9443` | tells the API server to call the webhooks there, for a process outside of the cluster |
//! | `--config settings.yaml` | reads the settings that neither a flag nor a variable gives from this file |
//! | `crd` | prints the custom resource definitions |
//! | `manifests` | prints everything that a real cluster needs to run the operator, with the flags that are given |
//! | `manifests --helm DIR` | writes a Helm chart whose defaults are these manifests |
//! | `manifests --kustomize DIR` | writes a base for kustomize |
//!
//! Every flag is a setting, which is looked for in three places: in the command line, in the environment
//! (`EVENKEEL_LEADER_ELECT=true` is `--leader-elect`), and in the file of `--config` or `EVENKEEL_CONFIG`, a line each
//! (`leader-elect: true`). A name or a value that is wrong is an error that says what may have been meant.

mod chart;
#[cfg(feature = "cluster")]
mod embedded;
mod install;
mod replica;
mod reporting;
mod settings;
#[cfg(feature = "webhook-server")]
mod webhooks;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Client, Config};

use crate::manifests::Verbs;
use crate::{BoxError, Manager, Manifests};
use replica::Replica;
use reporting::Reporting;

/// What `--help` says after the flags.
const AFTER_HELP: &str = "Every flag is a setting. It is looked for in the command line, then in the environment \
                          (EVENKEEL_LEADER_ELECT=true is --leader-elect), then in the file of --config or EVENKEEL_CONFIG.";

/// An operator with a command line: its name, its controllers, its CustomResourceDefinitions and samples.
///
/// ```no_run
/// use evenkeel::cli::Operator;
/// # fn controllers(manager: evenkeel::Manager) -> evenkeel::Manager { manager }
///
/// fn main() -> std::process::ExitCode {
///     Operator::new("my-operator", controllers).samples("apiVersion: v1\nkind: ConfigMap").main()
/// }
/// ```
#[must_use = "an operator does nothing until `main` is called"]
pub struct Operator {
    name: &'static str,
    version: &'static str,
    about: Option<&'static str>,
    controllers: Box<dyn FnOnce(Manager) -> Manager + Send>,
    crds: Vec<CustomResourceDefinition>,
    samples: Vec<&'static str>,
    verbs: Option<&'static str>,
}

#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: Run,
    #[command(flatten)]
    replica: Replica,
}

#[derive(Debug, Args)]
struct Run {
    /// Run against a cluster in this process instead of the current kubeconfig's.
    #[arg(long)]
    embedded: bool,
    /// Apply the samples, too.
    #[arg(long)]
    samples: bool,
    /// Which logs are written to stderr, for example `debug` or `info,evenkeel_runtime=trace`.
    #[arg(long, global = true, default_value = "info", value_name = "FILTER")]
    log: String,
    /// A file with settings, in YAML: each line is the name of a flag and its value, such as `leader-elect: true`.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the custom resource definitions.
    Crd,
    /// Print what a real cluster needs to run this operator, for `kubectl apply -f -`.
    Manifests(Wanted),
}

#[derive(Debug, Args)]
struct Wanted {
    /// The namespace that the operator runs in.
    #[arg(long, default_value = "default", value_name = "NAMESPACE")]
    namespace: String,
    /// The image that the Deployment runs [default: the operator's name, at this version].
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// How many replicas the Deployment has [default: 1; 2 with --leader-elect].
    #[arg(long, value_name = "NUMBER")]
    replicas: Option<u32>,
    /// Add a ServiceMonitor, alert rules and a dashboard for Grafana; the cluster needs the Prometheus operator.
    #[arg(long)]
    monitoring: bool,
    /// Write a Helm chart into this folder instead of printing.
    #[arg(long, value_name = "FOLDER", conflicts_with = "kustomize")]
    helm: Option<PathBuf>,
    /// Write a base for kustomize into this folder instead of printing.
    #[arg(long, value_name = "FOLDER")]
    kustomize: Option<PathBuf>,
}

impl Operator {
    /// An operator with this name. The function adds its controllers to a manager.
    pub fn new(name: &'static str, controllers: impl FnOnce(Manager) -> Manager + Send + 'static) -> Self {
        Self {
            name,
            version: "latest",
            about: None,
            controllers: Box::new(controllers),
            crds: Vec::new(),
            samples: Vec::new(),
            verbs: None,
        }
    }

    /// Sets the version, for `--version` and for the image in the manifests: `env!("CARGO_PKG_VERSION")`.
    pub fn version(mut self, version: &'static str) -> Self {
        self.version = version;
        self
    }

    /// Sets the description for `--help`, in one line.
    pub fn about(mut self, about: &'static str) -> Self {
        self.about = Some(about);
        self
    }

    /// Adds a custom resource definition, such as `T::crd()`.
    pub fn crd(mut self, crd: CustomResourceDefinition) -> Self {
        self.crds.push(crd);
        self
    }

    /// Adds samples: YAML documents, which `--samples` applies.
    pub fn samples(mut self, yaml: &'static str) -> Self {
        self.samples.push(yaml);
        self
    }

    /// Sets the verbs that the tests recorded, as the text of [`Verbs`]: the manifests allow these writes and no others. An
    /// empty text is that of a new operator without a record. One line of a test records them:
    /// `testing::assert_file("verbs.txt", &cluster.verbs(NAME))`.
    pub fn verbs(mut self, verbs: &'static str) -> Self {
        self.verbs = Some(verbs);
        self
    }

    /// Returns the manifests that a real cluster needs to run the operator in this namespace.
    ///
    /// # Errors
    /// Fails if the recorded verbs cannot be read.
    pub fn manifests(self, namespace: &str) -> Result<Manifests, BoxError> {
        // No request is sent: the manager is created only to find out what its controllers watch. But a client needs a
        // runtime. The caller's own is used if there is one, because a runtime cannot be dropped within another.
        let runtime = match tokio::runtime::Handle::try_current() {
            Ok(_) => None,
            Err(_) => Some(tokio::runtime::Builder::new_current_thread().enable_all().build()?),
        };
        let _entered = runtime.as_ref().map(tokio::runtime::Runtime::enter);
        let nowhere = Config::new(http::Uri::from_static("http://localhost"));
        let manager = (self.controllers)(Manager::new(Client::try_from(nowhere)?));
        let manifests = manager.manifests(self.name, namespace);
        let manifests = self.crds.iter().fold(manifests, |manifests, crd| manifests.crd(crd));
        let verbs: Verbs = self.verbs.unwrap_or_default().parse()?;
        Ok(if verbs.is_empty() { manifests } else { manifests.verbs(verbs) })
    }

    /// The manifests with a Deployment, whose replicas get these flags.
    fn deployment(self, wanted: &Wanted, replica: &Replica) -> Result<Manifests, BoxError> {
        let (name, image) = (self.name, self.image(wanted));
        let manifests = replica.deployed(self.manifests(&wanted.namespace)?, name).image(image);
        let manifests = if wanted.monitoring { manifests.monitoring() } else { manifests };
        Ok(match wanted.replicas {
            Some(replicas) => manifests.replicas(replicas),
            None => manifests,
        })
    }

    fn image(&self, wanted: &Wanted) -> String {
        wanted.image.clone().unwrap_or_else(|| format!("{}:{}", self.name, self.version))
    }

    /// Returns the files of the Helm chart or of the base for kustomize, whichever the flags ask for.
    fn files(
        self,
        wanted: &Wanted,
        replica: &Replica,
    ) -> anyhow::Result<(PathBuf, &'static str, chart::Files)> {
        let (name, version, about, image) = (self.name, self.version, self.about, self.image(wanted));
        let manifests = self.manifests(&wanted.namespace).map_err(anyhow::Error::from_boxed)?;
        note_unrecorded(&manifests);
        let source = chart::Source {
            name,
            version,
            about,
            image: &image,
            replicas: wanted.replicas,
            monitoring: wanted.monitoring,
            replica,
            manifests: &manifests,
        };
        match (&wanted.helm, &wanted.kustomize) {
            (Some(folder), _) => Ok((folder.clone(), "Chart.yaml", chart::helm(&source)?)),
            (None, Some(folder)) => Ok((folder.clone(), "kustomization.yaml", chart::kustomize(&source)?)),
            (None, None) => anyhow::bail!("no folder is named"),
        }
    }

    /// Reads the command line and does what it says. Running takes place on a tokio runtime that this starts.
    pub fn main(self) -> ExitCode {
        let command = Arguments::command().name(self.name).version(self.version).after_help(AFTER_HELP);
        let command = match self.about {
            Some(about) => command.about(about),
            None => command,
        };
        let line: Vec<_> = std::env::args_os().collect();
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        let matches = match settings::matches(&command, &line, &environment.collect()) {
            Ok(matches) => matches,
            Err(settings::Refused::Usage(error)) => error.exit(),
            Err(settings::Refused::Settings(error)) => return failed(&error),
        };
        let arguments = match Arguments::from_arg_matches(&matches) {
            Ok(arguments) => arguments,
            Err(error) => error.exit(),
        };
        match self.obey(arguments) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(&error),
        }
    }

    fn obey(self, arguments: Arguments) -> anyhow::Result<()> {
        arguments.replica.check()?;
        match arguments.command {
            None => self.run(&arguments),
            Some(Command::Crd) => {
                let documents: Result<Vec<String>, _> =
                    self.crds.iter().map(serde_saphyr::to_string).collect();
                print(&documents?.join("---\n"))
            }
            Some(Command::Manifests(wanted)) if wanted.helm.is_some() || wanted.kustomize.is_some() => {
                let (folder, sign, files) = self.files(&wanted, &arguments.replica)?;
                chart::write(&folder, &files, sign)
            }
            Some(Command::Manifests(wanted)) => {
                let manifests =
                    self.deployment(&wanted, &arguments.replica).map_err(anyhow::Error::from_boxed)?;
                note_unrecorded(&manifests);
                print(&manifests.yaml().map_err(anyhow::Error::from_boxed)?)
            }
        }
    }

    /// Runs the operator on a tokio runtime that this starts.
    fn run(self, arguments: &Arguments) -> anyhow::Result<()> {
        let reporting = Reporting::start(self.name, &arguments.run.log)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = runtime.context("cannot start the runtime")?;
        let result = match arguments.run.embedded {
            true => runtime.block_on(self.run_embedded(arguments, &reporting)),
            false => runtime.block_on(self.run_elsewhere(arguments, &reporting)),
        };
        // Tasks that still run are abandoned: nothing waits for them.
        runtime.shutdown_background();
        reporting.end();
        result
    }

    async fn run_elsewhere(self, arguments: &Arguments, reporting: &Reporting) -> anyhow::Result<()> {
        let config = evenkeel_runtime::kubeconfig::infer().await;
        let config = config.context("no cluster to run against (hint: set KUBECONFIG, or try --embedded)")?;
        let client = Client::try_from(config.clone())?;
        // In a pod, the account may only do what reconciling needs, and the manifests that deployed it contain the
        // definitions.
        if std::env::var_os("KUBERNETES_SERVICE_HOST").is_none() {
            install::missing(&client, &self.crds).await?;
        }
        // A manager that makes its client from the configuration has sockets that respect the fence of the election.
        self.run_against(client, Manager::from_config(config)?, arguments, reporting).await
    }

    #[cfg(feature = "cluster")]
    async fn run_embedded(self, arguments: &Arguments, reporting: &Reporting) -> anyhow::Result<()> {
        let embedded = embedded::Embedded::start(self.name).await?;
        let client = embedded.client();
        install::missing(&client, &self.crds).await?;
        let (name, namespace, samples) =
            (self.name, client.default_namespace().to_owned(), self.wanted_samples(arguments));
        let mut manager = self.manager(Manager::new(client.clone()), arguments, &namespace);
        // The API server in this process calls the webhooks directly, without a port. They must be served before
        // samples are applied.
        let _served = embedded.take_webhooks(name, &mut manager).await?;
        install::apply(&client, name, &samples).await?;
        tracing::info!(operator = name, "running; Ctrl-C ends it");
        reporting.run(manager).await
    }

    #[cfg(not(feature = "cluster"))]
    async fn run_embedded(self, _: &Arguments, _: &Reporting) -> anyhow::Result<()> {
        anyhow::bail!(
            "this build of {} has no embedded cluster (hint: build it with that feature)",
            self.name
        )
    }

    async fn run_against(
        self,
        client: Client,
        manager: Manager,
        arguments: &Arguments,
        reporting: &Reporting,
    ) -> anyhow::Result<()> {
        install::apply(&client, self.name, &self.wanted_samples(arguments)).await?;
        let (name, namespace) = (self.name, client.default_namespace().to_owned());
        let manager = self.manager(manager, arguments, &namespace);
        #[cfg(feature = "webhook-server")]
        if arguments.replica.webhooks.has_url() {
            install::webhooks(&client, name, &manager.manifests(name, &namespace)).await?;
        }
        tracing::info!(operator = name, "running; Ctrl-C ends it");
        reporting.run(manager).await
    }

    /// Returns the samples, if the flags ask for them.
    fn wanted_samples(&self, arguments: &Arguments) -> Vec<&'static str> {
        if arguments.run.samples { self.samples.clone() } else { Vec::new() }
    }

    /// Configures the manager with the operator's controllers and the flags.
    fn manager(self, manager: Manager, arguments: &Arguments, namespace: &str) -> Manager {
        let name = self.name;
        #[cfg(feature = "webhook-server")]
        let manager = manager.webhook_server(crate::WebhookServer::new(namespace, name));
        arguments.replica.applied((self.controllers)(manager), name, namespace)
    }
}

impl std::fmt::Debug for Operator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Operator").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Says on stderr which rules the manifests have that no test was seen to need.
fn note_unrecorded(manifests: &Manifests) {
    let unrecorded = manifests.unrecorded();
    if unrecorded.is_empty() {
        return;
    }
    let how = match manifests.has_record() {
        true => {
            "these rules are granted without having been recorded, because reads from the server, owner references and \
                 repeated events need them"
        }
        false => {
            "nothing was recorded, so that the rules allow everything that is usual; for the least rules, let a test \
                  record what the operator does: testing::assert_file(\"verbs.txt\", &cluster.verbs(NAME)), and give it to \
                  Operator::verbs(include_str!(\"../verbs.txt\")). Not seen to be needed"
        }
    };
    eprintln!("note: {how}:");
    unrecorded.iter().for_each(|rule| eprintln!("  {rule}"));
}

fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("error: {}", evenkeel_runtime::error::chain(&**error));
    ExitCode::FAILURE
}

fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests;

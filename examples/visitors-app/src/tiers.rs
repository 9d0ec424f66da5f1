//! The three tiers of a site, each a Deployment and a Service, and the Secret with the database's credentials.

use std::collections::BTreeMap;

use evenkeel::k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use evenkeel::k8s_openapi::api::core::v1::{
    Container, ContainerPort, EnvVar, EnvVarSource, PodSpec, PodTemplateSpec, Secret, SecretKeySelector,
    Service, ServicePort, ServiceSpec,
};
use evenkeel::k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use evenkeel::kube::ResourceExt;

use crate::VisitorsApp;

/// The user of the database.
const USER: &str = "visitors";

/// A tier of the site. Each tier needs the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tier {
    Database,
    Backend,
    Frontend,
}

impl Tier {
    /// All tiers, from the database up.
    pub(crate) const IN_ORDER: [Self; 3] = [Self::Database, Self::Backend, Self::Frontend];

    /// The name of the tier's Deployment and Service.
    pub(crate) fn name(self, app: &VisitorsApp) -> String {
        format!("{}-{}", app.name_any(), self.role())
    }

    /// The type of the condition that shows whether the tier is ready.
    pub(crate) fn condition(self) -> &'static str {
        match self {
            Self::Database => "DatabaseReady",
            Self::Backend => "BackendReady",
            Self::Frontend => "FrontendReady",
        }
    }

    /// The image of the tier's container.
    pub(crate) fn image(self) -> &'static str {
        match self {
            Self::Database => "mysql:9.4",
            Self::Backend => "jdob/visitors-service:1.0.0",
            Self::Frontend => "jdob/visitors-webui:1.0.0",
        }
    }

    fn role(self) -> &'static str {
        match self {
            Self::Database => "mysql",
            Self::Backend => "backend",
            Self::Frontend => "frontend",
        }
    }

    fn port(self) -> i32 {
        match self {
            Self::Database => 3306,
            Self::Backend => 8000,
            Self::Frontend => 3000,
        }
    }

    fn replicas(self, app: &VisitorsApp) -> i32 {
        match self {
            Self::Backend => app.spec.size,
            Self::Database | Self::Frontend => 1,
        }
    }

    fn env(self, app: &VisitorsApp) -> Vec<EnvVar> {
        match self {
            Self::Database => vec![
                plain("MYSQL_DATABASE", USER),
                secret_key("MYSQL_USER", app, "username"),
                secret_key("MYSQL_PASSWORD", app, "password"),
                secret_key("MYSQL_ROOT_PASSWORD", app, "password"),
            ],
            Self::Backend => vec![
                plain("MYSQL_DATABASE", USER),
                plain("MYSQL_SERVICE_HOST", &Self::Database.name(app)),
                secret_key("MYSQL_USERNAME", app, "username"),
                secret_key("MYSQL_PASSWORD", app, "password"),
            ],
            Self::Frontend => vec![plain("REACT_APP_TITLE", &app.spec.title)],
        }
    }
}

/// The Secret with the credentials of the database, which the backends use, too. It is created once and immutable.
pub(crate) fn secret(app: &VisitorsApp, password: &str) -> Secret {
    let pairs = [("username", USER), ("password", password)];
    Secret {
        metadata: metadata(app, Tier::Database),
        immutable: Some(true),
        string_data: Some(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
        ..Default::default()
    }
}

/// The pods of a tier.
pub(crate) fn deployment(app: &VisitorsApp, tier: Tier) -> Deployment {
    let container = Container {
        name: tier.role().to_owned(),
        image: Some(tier.image().to_owned()),
        ports: Some(vec![ContainerPort { container_port: tier.port(), ..Default::default() }]),
        env: Some(tier.env(app)),
        ..Default::default()
    };
    let template = PodTemplateSpec {
        metadata: Some(ObjectMeta { labels: Some(labels(app, tier)), ..Default::default() }),
        spec: Some(PodSpec { containers: vec![container], ..Default::default() }),
    };
    Deployment {
        metadata: metadata(app, tier),
        spec: Some(DeploymentSpec {
            replicas: Some(tier.replicas(app)),
            selector: LabelSelector { match_labels: Some(labels(app, tier)), ..Default::default() },
            template,
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// The Service of a tier.
pub(crate) fn service(app: &VisitorsApp, tier: Tier) -> Service {
    let ports = vec![ServicePort { port: tier.port(), ..Default::default() }];
    let selector = Some(labels(app, tier));
    Service {
        metadata: metadata(app, tier),
        spec: Some(ServiceSpec { selector, ports: Some(ports), ..Default::default() }),
        ..Default::default()
    }
}

fn metadata(app: &VisitorsApp, tier: Tier) -> ObjectMeta {
    let labels = Some(labels(app, tier));
    ObjectMeta { name: Some(tier.name(app)), namespace: app.namespace(), labels, ..Default::default() }
}

fn labels(app: &VisitorsApp, tier: Tier) -> BTreeMap<String, String> {
    let pairs = [("app", app.name_any()), ("tier", tier.role().to_owned())];
    pairs.map(|(key, value)| (key.to_owned(), value)).into()
}

fn plain(name: &str, value: &str) -> EnvVar {
    EnvVar { name: name.to_owned(), value: Some(value.to_owned()), value_from: None }
}

fn secret_key(name: &str, app: &VisitorsApp, key: &str) -> EnvVar {
    let selector = SecretKeySelector { name: Tier::Database.name(app), key: key.to_owned(), optional: None };
    let value_from = EnvVarSource { secret_key_ref: Some(selector), ..Default::default() };
    EnvVar { name: name.to_owned(), value: None, value_from: Some(value_from) }
}

//! The requests of an election, which read and write one lease.

use k8s_openapi::api::coordination::v1::Lease;
use kube::Resource as _;
use kube::core::params::{GetParams, PostParams};

use super::{Candidate, NoAnswer};
use crate::wire;

impl Candidate {
    fn requests(&self) -> kube::core::Request {
        kube::core::Request::new(Lease::url_path(&(), Some(&self.election.namespace)))
    }

    pub(super) async fn get(&self) -> kube::Result<Option<Lease>> {
        match self.send(self.requests().get(&self.election.name, &GetParams::default())).await {
            Ok(lease) => Ok(Some(lease)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn create(&self) -> kube::Result<Lease> {
        let mut lease = Lease::default();
        lease.metadata.name = Some(self.election.name.clone());
        lease.metadata.namespace = Some(self.election.namespace.clone());
        let body = serde_json::to_vec(&self.claim(lease)).map_err(kube::Error::SerdeError)?;
        self.send(self.requests().create(&PostParams::default(), body)).await
    }

    pub(super) async fn replace(&self, lease: &Lease) -> kube::Result<Lease> {
        let body = serde_json::to_vec(lease).map_err(kube::Error::SerdeError)?;
        self.send(self.requests().replace(&self.election.name, &PostParams::default(), body)).await
    }

    /// Sends a request. Gives it up after the request timeout of the election.
    async fn send(
        &self,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> kube::Result<Lease> {
        let sending = wire::send(&self.client, request.map_err(kube::Error::BuildRequest)?);
        let within = self.election.request_timeout();
        let bytes = tokio::time::timeout(within, sending)
            .await
            .map_err(|_| kube::Error::Service(Box::new(NoAnswer(within))))??;
        serde_json::from_slice(&bytes).map_err(kube::Error::SerdeError)
    }
}

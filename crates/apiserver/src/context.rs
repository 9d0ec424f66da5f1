//! An authorized request to a resource, with everything that routing has found out about it.

use std::sync::Arc;

use bytes::Bytes;
use evenkeel_request_info::ResourcePath;

use crate::access::{Attributes, Decision, Target};
use crate::audit::Trail;
use crate::authorize::forbidden;
use crate::decode::read_body;
use crate::request::Request;
use crate::services::Services;
use crate::status::{Result, Status};
use crate::{ResourceInfo, User};

/// A request to a resource that exists, after authorization.
pub(crate) struct RequestContext<'a> {
    pub(crate) services: &'a Services,
    pub(crate) request: &'a Request<'a>,
    /// The audit record of the request, if it is audited.
    pub(crate) audit: Option<&'a Trail>,
    pub(crate) path: &'a ResourcePath<'a>,
    pub(crate) info: &'a Arc<ResourceInfo>,
    /// The user of the request, after impersonation.
    pub(crate) user: &'a User,
}

impl RequestContext<'_> {
    /// Reads the request's body within its time limit.
    pub(crate) async fn read_body<B: http_body::Body>(&self, body: B) -> Result<Bytes> {
        let Some(limit) = self.request.body_timeout else { return read_body(body).await };
        match tokio::time::timeout(limit, read_body(body)).await {
            Ok(read) => read,
            Err(_) => Err(Status::timeout("Timeout: request did not complete within the allotted timeout")),
        }
    }

    /// The key of the object that the path names.
    pub(crate) fn key(&self) -> String {
        self.info.key(&self.path.namespace, &self.path.name)
    }

    /// The key prefix of the collection that the path names.
    pub(crate) fn scope(&self) -> String {
        self.info.scope(&self.path.namespace)
    }

    /// Checks that the user may create the object: a PUT or an apply creates an object that does not exist.
    pub(crate) fn may_create(&self) -> Result<()> {
        let target = Target::resource(self.path, &self.path.name);
        let attributes = Attributes { user: self.user, verb: "create", target };
        match self.services.authorizer.authorize(&attributes) {
            Decision::Allow(_) => Ok(()),
            Decision::Deny(reason) => Err(forbidden(&attributes, &reason)),
        }
    }

    /// The error that the object of the path does not exist.
    pub(crate) fn not_found(&self) -> Status {
        Status::not_found(&self.info.group, &self.info.plural, &self.path.name)
    }
}

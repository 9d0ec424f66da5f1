//! Answers the questions that CEL expressions of policies and match conditions ask the `authorizer`.

use evenkeel_schema::admission::{AccessDecision, AccessQuestion, Authorizer};

use crate::User;
use crate::access::{Attributes, Decision, Target};
use crate::context::RequestContext;

/// The authorizer of the server, asked about the user of a request or about a service account.
pub(super) struct Access<'a> {
    authorizer: &'a dyn crate::access::Authorizer,
    user: &'a User,
}

impl std::fmt::Debug for Access<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access").field("user", &self.user.name).finish_non_exhaustive()
    }
}

impl<'a> Access<'a> {
    pub(super) fn of(ctx: &RequestContext<'a>) -> Self {
        Self { authorizer: &*ctx.services.authorizer, user: ctx.user }
    }
}

impl Authorizer for Access<'_> {
    fn decide(&self, question: &AccessQuestion) -> AccessDecision {
        let account = question.service_account.as_ref().map(|(namespace, name)| {
            let groups = [
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
                "system:authenticated".to_owned(),
            ];
            User::new(format!("system:serviceaccount:{namespace}:{name}"), groups)
        });
        let target = match &question.path {
            Some(path) => Target::Path(path),
            None => Target::Resource {
                group: &question.group,
                version: "*",
                resource: &question.resource,
                subresource: &question.subresource,
                namespace: &question.namespace,
                name: &question.name,
            },
        };
        let user = account.as_ref().unwrap_or(self.user);
        match self.authorizer.authorize(&Attributes { user, verb: &question.verb, target }) {
            Decision::Allow(reason) => AccessDecision { allowed: true, reason },
            Decision::Deny(reason) => AccessDecision { allowed: false, reason },
        }
    }
}

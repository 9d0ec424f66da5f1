//! Acting as somebody else, for those who may.

use crate::request::Request;
use crate::status::Result;
use crate::{ApiServer, User};

/// Who a request acts as.
pub(crate) fn effective_user(_: &ApiServer, request: &Request) -> Result<User> {
    Ok(request.user.clone())
}

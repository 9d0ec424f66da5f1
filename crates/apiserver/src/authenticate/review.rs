//! TokenReview: whose token is this?

use evenkeel_schema::json::{Value, json};

use super::{Authenticated, Authentication};
use crate::status::{Result, Status};

/// Answers a TokenReview: returns the object with its status filled in.
pub(crate) fn token_review(authentication: &Authentication, mut review: Value) -> Result<Value> {
    let token = review["spec"]["token"].as_str().unwrap_or_default();
    if token.is_empty() {
        return Err(Status::bad_request("token is required for TokenReview in authentication"));
    }
    let audiences: Vec<String> =
        evenkeel_schema::json::from_value(review["spec"]["audiences"].clone()).unwrap_or_default();
    review["status"] = match authentication.authenticate(token, &audiences) {
        Ok(Authenticated { user, audiences }) => {
            json!({"authenticated": true, "user": user.to_info(), "audiences": audiences})
        }
        Err(why) => json!({"user": {}, "error": why}),
    };
    Ok(review)
}

//! What users of the façade meet: errors of the compiler, and `anyhow` beside the prelude.

mod compile_errors;
mod with_anyhow;

// SPDX-License-Identifier: Apache-2.0
// The precompiled header of strata_precompile_torch() needs a target, and a target needs a source.

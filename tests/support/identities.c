/* SPDX-License-Identifier: MIT */
/*
 * identities.c - by certificates.sh, as scripts make them.
 */
#include "tests/support/identities.h"
#include "tests/support/harness.h"

#include <stdio.h>
#include <stdlib.h>

void make_identities(const char *dir, unsigned count) {
    char script[1024], out[4096];
    const char *source = getenv("RDMAD_SOURCE");
    CHECK(source, "RDMAD_SOURCE is not set");
    snprintf(script, sizeof(script),
             "set -e; . '%s/tests/support/certificates.sh'; make_ca %s/ca cluster; "
             "for ((i = 0; i < %u; i++)); do make_identity %s/node-$i %s/ca node-$i; done",
             source, dir, count, dir, dir);
    CHECK(run_program((const char *[]){"/bin/bash", "-c", script, NULL}, out, sizeof(out)) == 0,
          "%s", out);
}

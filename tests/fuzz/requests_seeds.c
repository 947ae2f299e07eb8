/* SPDX-License-Identifier: MIT */
/*
 * requests_seeds DIR: writes what programs ask, as fuzz_requests reads it: each noun of
 * daemon/serve from its making to its end, what is refused of it, and sessions that go on at the
 * next life of the daemon. coverage.sh --grow runs it.
 */
#include "tests/fuzz/requests_seeds.h"
#include "tests/fuzz/requests_seed.h"
#include <stdio.h>

static const struct {
    const char *name;
    void (*make)(void);
} seeds[] = {
    {"ring", seed_ring},
    {"ring_wrong", seed_ring_wrong},
    {"ring_refused", seed_ring_refused},
    {"unsent", seed_unsent},
    {"pool", seed_pool},
    {"pool_wrong", seed_pool_wrong},
    {"import", seed_import},
    {"lease", seed_lease},
    {"lease_of_others", seed_lease_of_others},
    {"lease_of_tenants", seed_lease_of_tenants},
    {"lease_refused", seed_lease_refused},
    {"lease_terms", seed_lease_terms},
    {"attach_wrong", seed_attach_wrong},
    {"attach_no_rights", seed_attach_no_rights},
    {"delegate", seed_delegate},
    {"remote", seed_remote},
    {"by_link", seed_by_link},
    {"attach_again", seed_attach_again},
    {"guests", seed_guests},
    {"request", seed_request},
    {"request_wrong", seed_request_wrong},
    {"request_given_up", seed_request_given_up},
    {"names", seed_names},
    {"names_far", seed_names_far},
    {"names_wrong", seed_names_wrong},
    {"channel", seed_channel},
    {"channel_refused", seed_channel_refused},
    {"channel_given_up", seed_channel_given_up},
    {"channel_wrong", seed_channel_wrong},
    {"channel_far", seed_channel_far},
    {"hello", seed_hello},
    {"rate", seed_rate},
    {"rate_connects", seed_rate_connects},
    {"resume", seed_resume},
    {"stop", seed_stop},
    {"resume_part", seed_resume_part},
    {"resume_service", seed_resume_service},
    {"resume_channel", seed_resume_channel},
    {"resume_channel_far", seed_resume_channel_far},
    {"resume_wrong", seed_resume_wrong},
};

int main(int argc, char **argv) {
    int rc = 0;
    if (argc != 2) {
        fprintf(stderr, "usage: requests_seeds DIR\n");
        return 2;
    }
    for (size_t i = 0; i < sizeof(seeds) / sizeof(seeds[0]); i++) {
        seeds[i].make();
        rc |= write_seed(argv[1], seeds[i].name);
    }
    return rc;
}

/* SPDX-License-Identifier: MIT */
/*
 * requests_seeds.h - what requests_seeds writes, each by a function that begins it.
 */
#ifndef RDMAD_TESTS_FUZZ_REQUESTS_SEEDS_H
#define RDMAD_TESTS_FUZZ_REQUESTS_SEEDS_H

void seed_ring(void);
void seed_ring_wrong(void);
void seed_ring_refused(void);
void seed_unsent(void);
void seed_pool(void);
void seed_pool_wrong(void);
void seed_import(void);
void seed_lease(void);
void seed_lease_of_others(void);
void seed_lease_refused(void);
void seed_lease_terms(void);
void seed_attach_wrong(void);
void seed_attach_no_rights(void);
void seed_delegate(void);
void seed_remote(void);
void seed_by_link(void);
void seed_attach_again(void);
void seed_guests(void);
void seed_request(void);
void seed_request_wrong(void);
void seed_request_given_up(void);
void seed_names(void);
void seed_names_far(void);
void seed_names_wrong(void);
void seed_channel(void);
void seed_channel_refused(void);
void seed_channel_given_up(void);
void seed_channel_wrong(void);
void seed_channel_far(void);
void seed_lease_of_tenants(void);
void seed_hello(void);
void seed_rate(void);
void seed_rate_connects(void);
void seed_resume(void);
void seed_stop(void);
void seed_resume_part(void);
void seed_resume_service(void);
void seed_resume_channel(void);
void seed_resume_channel_far(void);
void seed_resume_wrong(void);

#endif

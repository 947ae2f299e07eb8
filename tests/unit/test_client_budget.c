/* SPDX-License-Identifier: MIT */
/*
 * Memory that was handed over goes back to the budget that it is of. The daemon is told of an
 * offset only, which is that of another piece in the budget of another service.
 */
#include "tests/unit/client_rig.h"

#include <criterion/criterion.h>
#include <string.h>

#define BEGINS 8192
#define BYTES 16384

static rdmad_service *service;
static struct rdmad_budget_free_req told;
static unsigned times;

static bool note(struct fake_daemon *f, const struct rdmad_msg_header *h, const void *body) {
    (void)f;
    if (h->type == RDMAD_MSG_BUDGET_FREE) {
        memcpy(&told, body, sizeof(told));
        times++;
    }
    return false;
}

static void set_up(void) {
    struct rdmad_service_terms terms = RDMAD_SERVICE_TERMS_INIT;
    fake.hook = note;
    rig_set_up();
    terms.budget = memory + BEGINS;
    terms.budget_bytes = BYTES;
    cr_assert_eq(rdmad_listen(s, "service", &terms, &service), 0, "%s", rdmad_last_error(s));
}

TestSuite(client_budget, .init = set_up, .fini = rig_tear_down, .timeout = 20);

static void expect_not_its(char *at) {
    cr_expect_eq(rdmad_service_free(service, at), RDMAD_E_RANGE, "%s", rdmad_last_error(s));
    cr_expect(strstr(rdmad_last_error(s), "does not lie in the budget of service service"), "%s",
              rdmad_last_error(s));
}

Test(client_budget, memory_is_given_back_to_the_budget_that_it_is_of) {
    rdmad_pool *another;
    cr_assert_eq(rdmad_pool_create(s, 65536, 0, &another), 0, "%s", rdmad_last_error(s));
    expect_not_its((char *)rdmad_pool_base(another) + BEGINS);
    expect_not_its(memory + BEGINS - 4096);
    expect_not_its(memory + BEGINS + BYTES);
    cr_assert_eq(times, 0, "the daemon was asked all the same");
    cr_assert_eq(rdmad_service_free(service, memory + BEGINS + 4096), 0, "%s", rdmad_last_error(s));
    cr_expect_eq(told.offset, BEGINS + 4096);
}

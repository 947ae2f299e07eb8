/* SPDX-License-Identifier: MIT */
#include "tests/support/hang.h"
#include "tests/support/procs.h"

void hang(struct tdaemon *d) {
    process_stop(tdaemon_pid(d));
}

void go_on(struct tdaemon *d) {
    process_go_on(tdaemon_pid(d));
}

int open_patient(const struct tdaemon *d, int64_t call_timeout_ms, rdmad_session **out) {
    struct rdmad_options options = RDMAD_OPTIONS_INIT;
    options.runtime_dir = tdaemon_dir(d);
    options.call_timeout_ms = call_timeout_ms;
    return rdmad_open(&options, out);
}

bool hang_done(int rc) {
    CHECK(rc == 0 || rc == RDMAD_E_TIMEOUT || rc == RDMAD_E_DAEMON_LOST, "%s", rdmad_errname(rc));
    return rc == 0;
}

void hang_again(rdmad_session *s, unsigned *tries) {
    enum { TRIES = 5 };
    CHECK(++*tries < TRIES, "a daemon that runs seems to hang each time");
    printf("  a daemon that runs seemed to hang: once more\n");
    if (s)
        rdmad_close(s);
}

/* SPDX-License-Identifier: MIT */
#include "tests/support/hang.h"
#include <signal.h>
#include <sys/wait.h>

void hang(struct tdaemon *d) {
    int status;
    CHECK(!kill(tdaemon_pid(d), SIGSTOP), "SIGSTOP");
    CHECK(waitpid(tdaemon_pid(d), &status, WUNTRACED) == tdaemon_pid(d) && WIFSTOPPED(status),
          "it did not stop");
}

void go_on(struct tdaemon *d) {
    CHECK(!kill(tdaemon_pid(d), SIGCONT), "SIGCONT");
}

int open_patient(const struct tdaemon *d, int64_t call_timeout_ms, rdmad_session **out) {
    struct rdmad_options options = RDMAD_OPTIONS_INIT;
    options.runtime_dir = tdaemon_dir(d);
    options.call_timeout_ms = call_timeout_ms;
    return rdmad_open(&options, out);
}

/* SPDX-License-Identifier: MIT */
/*
 * half_porter.c - a porter that stops half way, for tests of who notices. HALF_PORTER says how:
 *
 *   one-answer  two ENDs come, then the first PING is answered, then nothing is read any more
 *   deaf        nothing is ever read
 */
#include "daemon/porter/messages.h"
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

static void answer_one(void) {
    unsigned ends = 0;
    uint64_t ping = 0;
    while (ends < 2 || !ping) {
        struct porter_request rq;
        if (recv(PORTER_FD, &rq, sizeof(rq), 0) != sizeof(rq))
            _exit(1);
        ends += rq.ask == PORTER_END;
        if (rq.ask == PORTER_PING && !ping)
            ping = rq.id;
    }
    struct porter_answer pong = {.word = PORTER_PONG, .id = ping};
    (void)!send(PORTER_FD, &pong, offsetof(struct porter_answer, data), 0);
}

int main(void) {
    const char *how = getenv("HALF_PORTER");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (how && strcmp(how, "one-answer") == 0)
        answer_one();
    for (;;)
        pause();
}

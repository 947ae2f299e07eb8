/* SPDX-License-Identifier: MIT */
/* Whether the CPUs are wanted, as the kernel says. */
#include "common/runnable.h"
#include <criterion/criterion.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

Test(runnable, is_a_count_and_no_average) {
    cr_assert(rdmad_cpus_wanted_by("0.00 0.00 0.00 5/100 4711\n", 2));
    cr_assert_not(rdmad_cpus_wanted_by("19.99 19.99 19.99 1/100 4711\n", 2));
}

Test(runnable, two_that_spin_for_each_other_are_no_others) {
    cr_assert_not(rdmad_cpus_wanted_by("0.00 0.00 0.00 4/100 4711\n", 2));
    cr_assert_not(rdmad_cpus_wanted_by("0.00 0.00 0.00 66/100 4711\n", 64));
    cr_assert(rdmad_cpus_wanted_by("0.00 0.00 0.00 67/100 4711\n", 64));
    cr_assert_not(rdmad_cpus_wanted_by("0.00 0.00 0.00 2/100 4711\n", 1));
    cr_assert(rdmad_cpus_wanted_by("0.00 0.00 0.00 3/100 4711\n", 1));
}

Test(runnable, what_makes_no_sense_says_nothing) {
    const char *const texts[] = {"",     "0.00 0.00 9/9",        "0.00 0.00 0.00",  "busy",
                                 "\n\n", "0.00 0.00 0.00 9 100", "0.00 0.00 0.00 /"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
        cr_assert_not(rdmad_cpus_wanted_by(texts[i], 1), "'%s'", texts[i]);
}

/* As where lxcfs is mounted over it, and hangs: a fifo waits for its writer. */
Test(runnable, a_program_that_serves_the_file_is_not_asked, .timeout = 20) {
    const char *tmp = getenv("TMPDIR");
    char fifo[256];
    snprintf(fifo, sizeof(fifo), "%s/loadavg.%d", tmp ? tmp : "/tmp", (int)getpid());
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
        cr_skip_test("no mount namespace of one's own here");
    cr_assert_eq(mkfifo(fifo, 0600), 0);
    cr_assert_eq(mount(fifo, "/proc/loadavg", NULL, MS_BIND, NULL), 0);
    cr_expect_not(rdmad_cpus_wanted());
    cr_assert_eq(unlink(fifo), 0);
}

Test(runnable, sees_programs_that_compute) {
    enum { MOST = 256 };
    pid_t loop[MOST];
    long loops = sysconf(_SC_NPROCESSORS_ONLN) + 2;
    cr_assert_lt(loops, MOST);
    for (long i = 0; i < loops; i++) {
        loop[i] = fork();
        if (loop[i] == 0)
            for (volatile unsigned long n = 0;; n++)
                ;
    }
    bool seen = false;
    for (int i = 0; i < 1000 && !seen; i++) { /* one may not have begun yet */
        seen = rdmad_cpus_wanted();
        usleep(10000);
    }
    for (long i = 0; i < loops; i++) {
        kill(loop[i], SIGKILL);
        waitpid(loop[i], NULL, 0);
    }
    cr_assert(seen);
}

/* SPDX-License-Identifier: MIT */
/* Whether the CPUs are wanted, as the kernel says. */
#include "common/runnable.h"
#include <criterion/criterion.h>
#include <signal.h>
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

// A wall clock that is wrong by as many milliseconds as a file says, for the processes
// into which this is loaded (LD_PRELOAD): Kafka's nodes, whose clocks a test must be able
// to set without touching the machine's. What counts from the start of the machine
// (CLOCK_MONOTONIC) is left alone.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *wrong_by_ms;

__attribute__((constructor)) static void map(void) {
	const char *file = getenv("CLOCK_FILE");
	int fd = file ? open(file, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0)
		return;
	void *p = mmap(NULL, sizeof *wrong_by_ms, PROT_READ, MAP_SHARED, fd, 0);
	if (p != MAP_FAILED)
		wrong_by_ms = p;
	close(fd);
}

int clock_gettime(clockid_t id, struct timespec *t) {
	int failed = syscall(SYS_clock_gettime, id, t);
	if (!failed && wrong_by_ms && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
		int64_t ms = *wrong_by_ms;
		t->tv_sec += ms / 1000;
		t->tv_nsec += ms % 1000 * 1000000;
		if (t->tv_nsec < 0)
			t->tv_nsec += 1000000000, t->tv_sec--;
		else if (t->tv_nsec >= 1000000000)
			t->tv_nsec -= 1000000000, t->tv_sec++;
	}
	return failed;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
	struct timespec now;
	(void)zone;
	if (clock_gettime(CLOCK_REALTIME, &now))
		return -1;
	t->tv_sec = now.tv_sec;
	t->tv_usec = now.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *to) {
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	if (to)
		*to = now.tv_sec;
	return now.tv_sec;
}

/* A stand-in for libnvidia-ml.so.1 that answers from a text file, named by $FAKE_NVML and read anew at every call,
   so that a test can change the machine while the program looks. One fact a line:

     init 9                                  what nvmlInit returns (9: driver not loaded; 0 or no line: success)
     gpu NVIDIA A10|23028|512|8.6|0          name | total MiB | used MiB | compute capability | code of its calls (15: lost)
     slice NVIDIA A100 MIG 2g.10gb|9728|12   a MIG slice of the gpu line above it
     uncut                                   the gpu line above it is in MIG mode, and nobody has cut it up
     process 1234|500                        a process on the line above it: pid | MiB                              */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, UNSUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, NOT_LOADED = 9 };
enum { DEVICES = 32, PROCESSES = 8, RESERVED_MIB = 300 };

typedef int Result;
typedef struct { unsigned int pid; unsigned long long used; unsigned int gpu_instance, compute_instance; } Process;
typedef struct {
  char name[96];
  unsigned long long total, used; /* MiB */
  int major, minor, code;
  int uncut;
  int parent; /* place of the GPU that a slice belongs to, -1 for a GPU */
  Process process[PROCESSES];
  unsigned int processes;
} Device;
typedef struct { int init, count; Device device[DEVICES]; } Machine;

static int opened;

static Machine look(void) {
  Machine m;
  char line[512];
  memset(&m, 0, sizeof m);
  const char *path = getenv("FAKE_NVML");
  FILE *file = path ? fopen(path, "r") : NULL;
  if (!file) { m.init = NOT_LOADED; return m; }
  int gpu = -1;
  while (fgets(line, sizeof line, file)) {
    Device d;
    memset(&d, 0, sizeof d);
    Device *last = m.count ? &m.device[m.count - 1] : NULL;
    if (sscanf(line, "init %d", &m.init) == 1) continue;
    if (last && !strncmp(line, "uncut", 5)) { last->uncut = 1; continue; }
    if (last && last->processes < PROCESSES &&
        sscanf(line, "process %u|%llu", &last->process[last->processes].pid, &d.used) == 2) {
      last->process[last->processes++].used = d.used << 20;
    } else if (m.count < DEVICES &&
               sscanf(line, "gpu %95[^|]|%llu|%llu|%d.%d|%d", d.name, &d.total, &d.used, &d.major, &d.minor, &d.code) >= 5) {
      d.parent = -1;
      gpu = m.count;
      m.device[m.count++] = d;
    } else if (m.count < DEVICES && gpu >= 0 &&
               sscanf(line, "slice %95[^|]|%llu|%llu", d.name, &d.total, &d.used) == 3) {
      d.parent = gpu;
      m.device[m.count++] = d;
    }
  }
  fclose(file);
  return m;
}

/* A handle is the place of a device in the file, counted from 1. */
static Result find(void *handle, Device *out) {
  Machine m = look();
  long place = (long)handle - 1;
  if (!opened) return UNINITIALIZED;
  if (place < 0 || place >= m.count) return INVALID;
  *out = m.device[place];
  return out->code;
}

static int nth(const Machine *m, int parent, unsigned int n) {
  for (int i = 0; i < m->count; i++)
    if (m->device[i].parent == parent && n-- == 0) return i;
  return -1;
}

Result nvmlInitWithFlags(unsigned int flags) {
  (void)flags;
  int code = look().init;
  if (code == OK) opened++;
  return code;
}
Result nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
Result nvmlShutdown(void) { return opened ? (opened--, OK) : UNINITIALIZED; }

const char *nvmlErrorString(Result code) {
  switch (code) {
    case OK: return "Success";
    case UNINITIALIZED: return "Uninitialized";
    case INVALID: return "Invalid Argument";
    case UNSUPPORTED: return "Not Supported";
    case NOT_FOUND: return "Not Found";
    case TOO_SMALL: return "Insufficient Size";
    case NOT_LOADED: return "Driver Not Loaded";
    case 15: return "GPU is lost";
    case 18: return "Driver/library version mismatch";
    default: return "Unknown Error";
  }
}

Result nvmlSystemGetDriverVersion(char *text, unsigned int size) {
  snprintf(text, size, "999.00.00");
  return opened ? OK : UNINITIALIZED;
}

Result nvmlDeviceGetCount_v2(unsigned int *count) {
  Machine m = look();
  for (*count = 0; nth(&m, -1, *count) >= 0; ++*count) {}
  return opened ? OK : UNINITIALIZED;
}

Result nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **handle) {
  Machine m = look();
  long place = nth(&m, -1, index);
  if (place < 0) return INVALID;
  *handle = (void *)(place + 1);
  return OK;
}

Result nvmlDeviceGetName(void *handle, char *text, unsigned int size) {
  Device d;
  Result code = find(handle, &d);
  if (code == OK) snprintf(text, size, "%s", d.name);
  return code;
}

Result nvmlDeviceGetUUID(void *handle, char *text, unsigned int size) {
  Device d;
  Result code = find(handle, &d);
  if (code == OK) snprintf(text, size, "%s-00000000-0000-0000-0000-%012ld", d.parent < 0 ? "GPU" : "MIG", (long)handle);
  return code;
}

Result nvmlDeviceGetMemoryInfo_v2(void *handle, void *info) {
  struct { unsigned int version; unsigned long long total, reserved, free, used; } *out = info;
  Device d;
  Result code = find(handle, &d);
  if (code != OK) return code;
  out->total = d.total << 20;
  out->used = d.used << 20;
  out->reserved = (unsigned long long)RESERVED_MIB << 20;
  out->free = out->total - out->used - out->reserved;
  return OK;
}

Result nvmlDeviceGetCudaComputeCapability(void *handle, int *major, int *minor) {
  Device d;
  Result code = find(handle, &d);
  if (code == OK) { *major = d.major; *minor = d.minor; }
  return code;
}

Result nvmlDeviceGetMigMode(void *handle, unsigned int *current, unsigned int *pending) {
  Device d;
  Machine m = look();
  Result code = find(handle, &d);
  if (code != OK) return code;
  *current = *pending = d.uncut || nth(&m, (int)((long)handle - 1), 0) >= 0;
  return *current ? OK : UNSUPPORTED;
}

Result nvmlDeviceGetMaxMigDeviceCount(void *handle, unsigned int *count) {
  (void)handle;
  *count = 7;
  return OK;
}

Result nvmlDeviceGetMigDeviceHandleByIndex(void *handle, unsigned int index, void **slice) {
  Machine m = look();
  long place = nth(&m, (int)((long)handle - 1), index);
  if (place < 0) return NOT_FOUND;
  *slice = (void *)(place + 1);
  return OK;
}

Result nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void *slice, void **handle) {
  Device d;
  Result code = find(slice, &d);
  if (code == OK) *handle = (void *)(long)(d.parent + 1);
  return code;
}

Result nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned int *count, Process *processes) {
  Device d;
  Result code = find(handle, &d);
  if (code != OK) return code;
  unsigned int room = *count;
  *count = d.processes;
  if (d.processes > room || (d.processes && !processes)) return TOO_SMALL;
  if (processes) memcpy(processes, d.process, d.processes * sizeof *processes);
  return OK;
}

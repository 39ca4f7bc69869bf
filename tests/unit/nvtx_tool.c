// An NVTX tool for tests: writes each push and pop into the file $TAPE.  With CALLS_DOMAINS_DISABLED it says of every
// domain that it is disabled, and takes its ranges all the same, as Nsight Systems 2024.2 does.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <nvtx3/nvToolsExt.h>

static FILE *tape;

static nvtxDomainHandle_t create(const char *name) { return (nvtxDomainHandle_t)strdup(name); }
static nvtxStringHandle_t registered(nvtxDomainHandle_t domain, const char *text) {
    return (nvtxStringHandle_t)strdup(text);
}
static int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *event) {
    const char *text = event->messageType == NVTX_MESSAGE_TYPE_REGISTERED ? (const char *)event->message.registered
                                                                          : event->message.ascii;
    if (event->payloadType == NVTX_PAYLOAD_TYPE_INT64)
        fprintf(tape, "%ld %s push %s %lld\n", syscall(SYS_gettid), (char *)domain, text,
                (long long)event->payload.llValue);
    else
        fprintf(tape, "%ld %s push %s %s\n", syscall(SYS_gettid), (char *)domain, text,
                event->payloadType == NVTX_PAYLOAD_UNKNOWN ? "-" : "?");
    return 0;
}
static int pop(nvtxDomainHandle_t domain) {
    fprintf(tape, "%ld %s pop\n", syscall(SYS_gettid), (char *)domain);
    return 0;
}

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get) {
    const NvtxExportTableCallbacks *callbacks = get(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table;
    unsigned int size = 0;
    tape = fopen(getenv("TAPE"), "w");
    if (tape) setvbuf(tape, NULL, _IOLBF, 0);  // a forked process that is not ended by exit() loses nothing
    if (!tape || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size)) return 0;
    *table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)create;
    *table[NVTX_CBID_CORE2_DomainRegisterStringA] = (NvtxFunctionPointer)registered;
    *table[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)push;
    *table[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)pop;
    return 1;
}

#ifdef CALLS_DOMAINS_DISABLED
#include <nvtx3/nvToolsExtPayload.h>
static uint8_t no(nvtxDomainHandle_t domain) { return 0; }
int InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t *module) {
    if (module->moduleId == NVTX_EXT_PAYLOAD_MODULEID)
        module->segments[0].functionSlots[NVTX3EXT_CBID_nvtxDomainIsEnabled] = (intptr_t)no;
    return 1;
}
#endif

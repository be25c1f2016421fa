/* Driver of the accelerator: open a compiled model, run it. C11 without heap or library, only compiler headers. */
#ifndef TQ_H
#define TQ_H

#include <stddef.h>
#include <stdint.h>

#include "tq_layout.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Inputs and outputs of one model; a model with more needs a build with a larger number. */
#ifndef TQ_MOST_TENSORS
#define TQ_MOST_TENSORS 8u
#endif
/* Polls after which a machine is given up whose clock does not run, or that does not stop. They must take longer than
 * TQ_DRAIN_CYCLES, the cycles of a stop. */
#ifndef TQ_STUCK_POLLS
#define TQ_STUCK_POLLS 100000u
#endif
#define TQ_MOST_RANK 8u
/* Regions begin at multiples of this in the device's memory. */
#define TQ_ALIGN 256u

typedef enum tq_status {
    TQ_OK = 0,
    TQ_BAD_ARGUMENT,        /* a null pointer, an unaligned address, a size that is not the tensor's */
    TQ_BUS_FAILED,          /* the bus reported an error */
    TQ_NO_DEVICE,           /* the magic register has another value */
    TQ_NO_FILE,             /* not a compiled model */
    TQ_OTHER_VERSION,       /* of the file's format */
    TQ_TRUNCATED,           /* the file is shorter than it says */
    TQ_DAMAGED,             /* its checksum or a table in it is wrong */
    TQ_OTHER_CONFIGURATION, /* compiled for another configuration of the accelerator */
    TQ_NO_MEMORY,           /* image, arena and state are larger than the memory */
    TQ_TOO_MANY_TENSORS,    /* more than TQ_MOST_TENSORS */
    TQ_STOPPED,             /* the machine stopped with an error: error_code, error_unit, error_index of the model */
    TQ_TIMED_OUT,           /* the machine did not end in time and was stopped */
    TQ_NO_ANSWER,           /* no answer from the other end of the link */
    TQ_REFUSED,             /* the board refuses a request */
    TQ_BOARD_RESET,         /* the board was reset: open the link and the model again */
    TQ_NOT_FINITE           /* a float that is not finite or too large for the tensor */
} tq_status;

typedef enum tq_space { TQ_REGISTERS, TQ_MEMORY } tq_space;

/* Access to the device. Both functions copy `bytes` bytes between `data` and byte address `address` of a space and
 * return TQ_OK or an error. Registers are accessed in whole words, low byte first. */
typedef struct tq_bus {
    tq_status (*read)(void *context, tq_space space, uint32_t address, void *data, uint32_t bytes);
    tq_status (*write)(void *context, tq_space space, uint32_t address, const void *data, uint32_t bytes);
    void *context;
} tq_bus;

/* An input or output: dense, row-major, in the device's memory. */
typedef struct tq_tensor {
    const char *name; /* in the file, zero-terminated */
    double scale;
    int32_t zero_point;
    uint32_t dtype; /* TQ_DTYPE_..., as stored */
    uint32_t edge;  /* TQ_EDGE_...: whether the model's own tensor is float32, see tq_quantize */
    uint32_t rank;
    uint32_t shape[TQ_MOST_RANK];
    uint32_t address; /* of the device */
    uint32_t bytes;
} tq_tensor;

/* An open model, for reading only. The file and the bus must stay valid as long as it is used. */
typedef struct tq_model {
    const tq_bus *bus; /* NULL where tq_open failed: then calls return TQ_BAD_ARGUMENT */
    const uint8_t *file;
    tq_tensor tensors[TQ_MOST_TENSORS]; /* inputs first */
    tq_tensor *inputs, *outputs;
    uint32_t input_count, output_count;
    uint32_t bases[3]; /* device addresses of image, arena and state */
    uint32_t error_code, error_unit, error_index;
} tq_model;

/* Check a compiled file and the device, load the model into `memory_bytes` of the device's memory from `memory` on, and
 * describe its tensors. `memory` is a multiple of TQ_ALIGN. The call overwrites a model that was open there. */
tq_status tq_open(tq_model *model, const tq_bus *bus, const void *file, size_t file_bytes, uint32_t memory,
                  uint32_t memory_bytes);
/* Write all of an input, or read all of an output; `bytes` must be the tensor's. */
tq_status tq_write(const tq_model *model, const tq_tensor *tensor, const void *data, uint32_t bytes);
tq_status tq_read(const tq_model *model, const tq_tensor *tensor, void *data, uint32_t bytes);
/* Run once; a stateful model continues from its state. Stops after `most_cycles` of the accelerator's clock. */
tq_status tq_run(tq_model *model, uint32_t most_cycles);
/* Give a stateful model its first state again. */
tq_status tq_reset_state(const tq_model *model);
/* Read a counter of the last run: a TQ_REG_COUNTER_... register. */
tq_status tq_counter(const tq_model *model, uint32_t offset, uint32_t *value);
/* Return the meaning of a status, in a few words of English. */
const char *tq_text(tq_status status);

/* tq_float.c: convert float32 inputs and outputs of the original model, as TFLite's QUANTIZE and DEQUANTIZE do.
 * `stored` has the tensor's dtype (int8, uint8 or int16), `count` elements. */
tq_status tq_quantize(const tq_tensor *tensor, const float *values, void *stored, uint32_t count);
tq_status tq_dequantize(const tq_tensor *tensor, const void *stored, float *values, uint32_t count);

/* tq_mmio.c: a device in the address space of this program. `memory_address` is the device's address of memory[0]. */
typedef struct tq_mmio {
    volatile uint32_t *registers;
    volatile uint8_t *memory;
    uint32_t memory_address;
} tq_mmio;
tq_bus tq_mmio_bus(tq_mmio *mmio);

/* CRC-32 of compiled files and of the link; begin with 0. */
uint32_t tq_crc32(uint32_t crc, const void *data, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* TQ_H */

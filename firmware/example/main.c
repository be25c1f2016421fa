/* Run a model in flash on an accelerator in this processor's address space. */
#include "tq.h"

extern const uint8_t model_file[]; /* model.tqm, for example by: xxd -i, or objcopy -I binary */
extern const uint32_t model_file_bytes;
void say(const char *text);

static int8_t image[64], scores[10];

int classify(void)
{
    static tq_model model;
    tq_mmio mmio = {(volatile uint32_t *)0xf0000000u, (volatile uint8_t *)0x40000000u, 0x40000000u};
    tq_bus bus = tq_mmio_bus(&mmio);
    int best = 0;

    tq_status status = tq_open(&model, &bus, model_file, model_file_bytes, 0x40000000u, 1u << 20);
    if (status == TQ_OK)
        status = tq_write(&model, &model.inputs[0], image, sizeof image);
    if (status == TQ_OK)
        status = tq_run(&model, 100000000u);
    if (status == TQ_OK)
        status = tq_read(&model, &model.outputs[0], scores, sizeof scores);
    if (status != TQ_OK) {
        say(tq_text(status));
        return -1;
    }
    for (int i = 1; i < 10; i++)
        best = scores[i] > scores[best] ? i : best;
    return best;
}

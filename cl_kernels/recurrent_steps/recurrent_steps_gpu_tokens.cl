// One token of a recurrent network over sequences whose inputs are multiplied already, for GPUs: a group a unit.
//
// Tensors as of recurrent_steps_lines.cl, float or half, dense; scratch [3, directions, batch, H] (float): the states behind
// even and odd tokens, an LSTM's cells or a GRU's states that are reset.
// Grid: a group of ITEMS (default 64) work-items for each unit of a direction and LINES (default 1) sequences,
// which share the unit's weights. A work-item multiplies every ITEMS-th state; one a sequence adds up and has the cell. CELL
// (default 2) 0 for an RNN, 1 a GRU, 2 an LSTM. PART (default 0) is 0 for a launch that makes all of a token; of a GRU that
// resets before the product, 1 for the launch that makes the states that are reset, 2 for the one that makes the token of them.
// step: the token. table: tokens, batch, H, whether the first direction is from the end, directions, linear before reset,
// coupled, the bits of the bound (0: none), then for each direction code and parameters of its activations.
// Error: (H / ITEMS + min(H, ITEMS)) * 2^-24 * sum |r h| for each gate, and the activations', carried on by the network from
// token to token.
#include "tensor.clh"
#ifndef ITEMS
  #define ITEMS 64
#endif
#ifndef LINES
  #define LINES 1
#endif
#ifndef PART
  #define PART 0
#endif
#include "recurrent_cell.clh"

// Gates whose products the launch makes, and which of them reads states that are reset.
#define NEEDED(g) (PART == 0 || (PART == 1) == ((g) == 1))
#define OF_RESET(g) (PART == 2 && (g) == 2)

// What goes into gate g of the unit: of x, and of the states.
#define AHEAD(g) READ(in0, gates + (g) * size)
#define OF_STATES(g) (READ_OR_0(bias, (direction * GATES + (g)) * size + j) + sums[(g) * LINES + own])

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void recurrent_steps_gpu_tokens(
    TENSOR(in0), TENSOR(in1), TENSOR(bias), TENSOR(lengths), TENSOR(hidden), TENSOR(first), TENSOR(peephole),
    TENSOR(out0), TENSOR(out1), TENSOR(out2), TENSOR(scratch), const int step, __global const int* table) {
  __local float parts[GATES * LINES][ITEMS + 1], sums[GATES * LINES];
  const int tokens = table[0], batch = table[1], size = table[2], n = table[4] * batch;
  const int tiles = (batch + LINES - 1) / LINES, unit = get_group_id(0) / tiles, start = get_group_id(0) % tiles * LINES;
  const int own = get_local_id(0), direction = unit / size, j = unit % size;
  __global const T* r = BASE_OF(const T, in1) + (direction * GATES * size + j) * size;
  __global float* states = BASE_OF(float, scratch) + direction * batch * size;
  __global const float* before = states + step % 2 * n * size;
  __global float* after = states + (step + 1) % 2 * n * size;
  __global float* aside = states + 2 * n * size;
#define STATE(line, k) (step ? before[(line) * size + (k)] : READ_OR_0(hidden, (direction * batch + (line)) * size + (k)))

  float sum[GATES][LINES];
  for (int g = 0; g < GATES; g++)
    for (int i = 0; i < LINES; i++) sum[g][i] = 0.0f;
  for (int k = own; k < size; k += ITEMS) {
    float w[GATES];
    for (int g = 0; g < GATES; g++) w[g] = NEEDED(g) ? LOAD(r, g * size * size + k) : 0.0f;
    // An array that is indexed at run time would not lie in registers.
#pragma unroll
    for (int i = 0; i < LINES; i++) {
      const int line = min(start + i, batch - 1);
      const float h = STATE(line, k), reset = PART == 2 ? aside[line * size + k] : 0.0f;
      for (int g = 0; g < GATES; g++)
        if (NEEDED(g)) sum[g][i] = fma(w[g], OF_RESET(g) ? reset : h, sum[g][i]);
    }
  }
  for (int g = 0; g < GATES; g++)
    for (int i = 0; i < LINES; i++) parts[g * LINES + i][own] = sum[g][i];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int row = own; row < GATES * LINES; row += ITEMS) {
    float total = 0.0f;
    for (int i = 0; i < ITEMS; i++) total += parts[row][i];
    sums[row] = total;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  const int line = start + own;
  if (own >= LINES || line >= batch) return;

  const int length = lengths_offset < 0 ? tokens : min(BASE_OF(const int, lengths)[line], tokens), going = step < length;
  const int t = (table[3] || direction == 1) && going ? length - 1 - step : step;
  const int gates = ((t * batch + line) * table[4] + direction) * GATES * size + j;
  const int at = line * size + j, whole = direction * batch * size + at;
  const float limit = as_float(table[7]), old = STATE(line, j);
  __global const int* functions = table + 8 + direction * 3 * (CELL + 1);
  float made = old, cell = 0.0f;
  if (CELL == 0 && going) made = activated(functions, limit, AHEAD(0) + OF_STATES(0));
  if (CELL == 1 && going) {
    const float reset = PART == 2 ? 0.0f : activated(functions, limit, AHEAD(1) + OF_STATES(1));
    if (PART == 1) {
      aside[at] = reset * old;
      return;
    }
    const float candidate = AHEAD(2) + (PART == 2 ? OF_STATES(2) : reset * OF_STATES(2));
    made = gru_state(functions, limit, AHEAD(0) + OF_STATES(0), candidate, old);
  }
  if (CELL == 2) {
    cell = step ? aside[at] : READ_OR_0(first, whole);
    const float4 ahead = (float4)(AHEAD(0) + OF_STATES(0), AHEAD(1) + OF_STATES(1), AHEAD(2) + OF_STATES(2),
                                  AHEAD(3) + OF_STATES(3));
    if (going) made = lstm_state(functions, limit, ahead, POINTER(peephole, direction * 3 * size + j), size, table[6], &cell);
    aside[at] = cell;
  }
  if (PART == 1) return;
  after[at] = made;
  STORE(BASE_OF(T, out0), (t * n + direction * batch + line) * size + j, going ? made : 0.0f);
  if (step + 1 < tokens) return;
  STORE(BASE_OF(T, out1), whole, made);
  if (CELL == 2 && out2_offset >= 0) STORE(BASE_OF(T, out2), whole, cell);
}

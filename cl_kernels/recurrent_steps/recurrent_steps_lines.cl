// A recurrent network over sequences whose inputs are multiplied already: RNN, GRU or LSTM, for CPU devices.
//
// ahead [tokens, batch, directions, gates, H], r [directions, gates, H, H], bias of r [directions, gates, H], lengths
// [batch] (int), first hidden states and cells [directions, batch, H], peephole [directions, 3, H]; all but the first two may
// be null. Results: every [tokens, directions, batch, H], zeros beyond a sequence's length, last and cells [directions,
// batch, H]. Scratch [directions, batch, H].
// Grid: one work-item a direction of a sequence, n of them. table: tokens, batch, H, cell (0 RNN, 1 GRU, 2 LSTM), whether the
// first direction is from the end, directions, linear before reset, coupled, the bits of the bound (0: none), then for each
// direction code and parameters of its activations.
// Error: H * 2^-24 * sum |r h| for each gate, and the activations', carried on by the network from token to token.
#include "tensor.clh"

// The functions of a direction, and the bound on what they read; that of the cell reads it whole.
#define APPLY(i, v) apply(functions + 3 * (i), limit, v)
static float apply(__global const int* f, const float limit, const float v) {
  const float inside = limit > 0 ? clamp(v, -limit, limit) : v;
  return post_apply(f[0], inside, 0.0f, as_float(f[1]), as_float(f[2]));
}

// The product of two rows of n.
static float dot_rows(__global const float* a, __global const float* b, const int n) {
  float16 sum = 0;
  int k = 0;
  for (; k + 16 <= n; k += 16) sum = fma(vload16(0, a + k), vload16(0, b + k), sum);
  const float8 s8 = sum.lo + sum.hi;
  const float4 s4 = s8.lo + s8.hi;
  float total = s4.s0 + s4.s1 + s4.s2 + s4.s3;
  for (; k < n; k++) total = fma(a[k], b[k], total);
  return total;
}

// What goes into gate g of unit j.
#define GATE(g) (gates[(g) * size + j] + (bias ? bias[(g) * size + j] : 0.0f))
#define ROW(g, with) dot_rows(r + ((g) * size + j) * size, with, size)

__kernel void recurrent_steps_lines(const int n, TENSOR(in0), TENSOR(in1), TENSOR(bias), TENSOR(lengths), TENSOR(hidden),
                                    TENSOR(first), TENSOR(peephole), TENSOR(out0), TENSOR(out1), TENSOR(out2),
                                    TENSOR(scratch), __global const int* table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  const int tokens = table[0], batch = table[1], size = table[2], kind = table[3];
  const int direction = id / batch, line = id % batch, count = kind == 0 ? 1 : kind == 1 ? 3 : 4;
  const float limit = as_float(table[8]);
  __global const int* functions = table + 9 + direction * 3 * (kind + 1);
  const int backward = table[4] || direction == 1;
  __global const float* r = BASE_OF(const float, in1) + (long)direction * count * size * size;
  __global const float* bias = bias_offset < 0 ? 0 : BASE_OF(const float, bias) + direction * count * size;
  __global const float* peep = peephole_offset < 0 ? 0 : BASE_OF(const float, peephole) + direction * 3 * size;
  __global float* last = BASE_OF(float, out1) + (long)id * size;
  __global float* cells = out2_offset < 0 ? 0 : BASE_OF(float, out2) + (long)id * size;
  __global float* aside = BASE_OF(float, scratch) + (long)id * size;
  const int length = lengths_offset < 0 ? tokens : min(BASE_OF(const int, lengths)[line], tokens);
  for (int j = 0; j < size; j++) {
    last[j] = hidden_offset < 0 ? 0.0f : BASE_OF(const float, hidden)[(long)id * size + j];
    if (cells) cells[j] = first_offset < 0 ? 0.0f : BASE_OF(const float, first)[(long)id * size + j];
  }
  __global const float* before = last;
  for (int step = 0; step < tokens; step++) {
    const int t = backward && step < length ? length - 1 - step : step;
    __global float* now = BASE_OF(float, out0) + ((long)t * n + id) * size;
    __global const float* gates = BASE_OF(const float, in0) +
                                  (((long)t * batch + line) * table[5] + direction) * count * size;
    if (step >= length) {
      for (int j = 0; j < size; j++) now[j] = 0.0f;
      continue;
    }
    if (kind == 1 && !table[6])
      for (int j = 0; j < size; j++) aside[j] = APPLY(0, GATE(1) + ROW(1, before)) * before[j];
    for (int j = 0; j < size; j++) {
      if (kind == 0) {
        now[j] = APPLY(0, GATE(0) + ROW(0, before));
      } else if (kind == 1) {
        const float update = APPLY(0, GATE(0) + ROW(0, before));
        const float own = bias ? bias[2 * size + j] : 0.0f;
        const float mixed = table[6] ? gates[2 * size + j] +
                                           APPLY(0, GATE(1) + ROW(1, before)) * (ROW(2, before) + own)
                                     : GATE(2) + ROW(2, aside);
        now[j] = (1 - update) * APPLY(1, mixed) + update * before[j];
      } else {
        const float old = cells[j];
        const float in = APPLY(0, GATE(0) + ROW(0, before) + (peep ? peep[j] * old : 0.0f));
        const float keep = table[7] ? 1 - in
                                    : APPLY(0, GATE(2) + ROW(2, before) + (peep ? peep[2 * size + j] * old : 0.0f));
        const float cell = keep * old + in * APPLY(1, GATE(3) + ROW(3, before));
        const float out = APPLY(0, GATE(1) + ROW(1, before) + (peep ? peep[size + j] * cell : 0.0f));
        cells[j] = cell;
        now[j] = out * apply(functions + 6, 0.0f, cell);
      }
    }
    before = now;
  }
  if (before != last)
    for (int j = 0; j < size; j++) last[j] = before[j];
}

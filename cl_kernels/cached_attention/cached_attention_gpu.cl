// y = softmax(cap(scale q k') + bias) v for queries of new tokens over the caches of keys and values, for GPUs.
//
// Grid: (64 * runs of ROWS queries, SPLITS, texts * heads of the caches), groups of 64. A group takes queries that share a
// head of the caches, rows [heads / shared][tokens] of a text side by side, and goes over its part of the keys once, 64 at a
// time: a work-item makes the scores of a key, then some columns of the mixture of values (Milakov and Gimelshein 2018,
// online softmax). Of more parts than one each leaves its mixture, its largest score and the sum of its weights in `parts`
// [rows][SPLITS][WIDTH + 2], which cached_attention_gpu_join makes one. Arguments, table and macros as in
// cached_attention_ref; cached_attention_append has run. ROWS (default 4), SPLITS (default 1).
// Error: a score is off by (DEPTH + 4) * 2^-24 * (scale * sum |q k| + |bias|), the weights by that and by
// (|s - max| + 8) * 2^-24 relative, their sum and the result's by 2 * keys * 2^-24 more, relative to sum weight |v|.
#include "cache.clh"
#ifndef ROWS
  #define ROWS 4
#endif
#ifndef SPLITS
  #define SPLITS 1
#endif
#define ITEMS 64
#define PART 16
#define WHOLE ((DEPTH + PART - 1) / PART * PART)
#define COLUMNS ((WIDTH + ITEMS - 1) / ITEMS)

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void cached_attention_gpu(
    TENSOR(in0), TENSOR(lengths), TENSOR(state), TENSOR(bias), TENSOR(sink), TENSOR(out0), TENSOR(parts),
    __global const int* table) {
  __local float queries[ROWS][WHOLE];
  __local float tile[ITEMS][PART + 1];
  __local float scores[ROWS][ITEMS];
  __local float reduced[ROWS][ITEMS];
  const int heads = table[0], shared = table[1], tokens = table[2], group = heads / shared;
  const int item = get_local_id(0), n = get_global_id(2), text = n / shared, batch = get_global_size(2) / shared;
  const int from = get_group_id(0) * ROWS, rows = min(ROWS, group * tokens - from);
  const float scale = as_float(table[9]), cap = as_float(table[10]);
  __global const int* view = table + 11;
  __global const int* bias_rows = view + 2 * VIEW;
  __global const int* lengths = BASE_OF(const int, lengths);
  const long places = lengths[0];
  const int first = lengths[1 + text];
  __global const CACHE* k = BASE_OF(const CACHE, state) + batch * places * table[3] + n * places * IN_CACHE(DEPTH);
  __global const CACHE* v = BASE_OF(const CACHE, state) + batch * places * table[4] + n * places * IN_CACHE(WIDTH);
  float most[ROWS], sum[ROWS], mixed[ROWS][COLUMNS];
  int low[ROWS], high[ROWS], start = places, last = -1;
  for (int r = 0; r < ROWS; r++) {
    const int row = from + min(r, rows - 1), t = row % tokens, head = n % shared * group + row / tokens;
    const int at[4] = {text, head, t, 0};
    __global const T* query = BASE_OF(const T, in0) + element(view, at);
    for (int d = item; d < WHOLE; d += ITEMS) queries[r][d] = d < DEPTH ? LOAD(query, d * view[4]) : 0.0f;
    low[r] = table[6] < 0 ? 0 : max(0, first + t - table[6] + 1);
    high[r] = min((int)places - 1, first + (table[5] ? t : tokens - 1));
    start = min(start, low[r]);
    last = max(last, high[r]);
    const bool sinks = table[8] && get_group_id(1) == 0;
    most[r] = sinks ? LOAD(BASE_OF(const T, sink), head) : -INFINITY;
    sum[r] = sinks && item == 0 ? 1.0f : 0.0f;
    for (int c = 0; c < COLUMNS; c++) mixed[r][c] = 0.0f;
  }
  const int begin = start / ITEMS * ITEMS, each = (last - begin + ITEMS * SPLITS) / (ITEMS * SPLITS) * ITEMS;
  const int own = begin + (int)get_group_id(1) * each, end = min(last + 1, own + each);
  for (int block = own; block < end; block += ITEMS) {
    const int key = block + item;
    float s[ROWS];
    for (int r = 0; r < ROWS; r++) s[r] = 0.0f;
    for (int part = 0; part < WHOLE; part += PART) {
      barrier(CLK_LOCAL_MEM_FENCE);
      for (int i = item; i < ITEMS * PART; i += ITEMS) {
        const int j = block + i / PART, d = part + i % PART;
        tile[i / PART][i % PART] = j < end && d < DEPTH ? LOAD_CACHE(k, (long)j * DEPTH + d) : 0.0f;
      }
      barrier(CLK_LOCAL_MEM_FENCE);
      for (int d = 0; d < PART; d++)
        for (int r = 0; r < ROWS; r++) s[r] = fma(queries[r][part + d], tile[item][d], s[r]);
    }
    for (int r = 0; r < ROWS; r++) {
      const int row = from + min(r, rows - 1), t = row % tokens, head = n % shared * group + row / tokens;
      s[r] *= scale;
      if (cap != 0.0f) s[r] = cap * tanh(s[r] / cap);
      if (table[7] && key < end)
        s[r] += BASE_OF(const float, bias)[((long)text * bias_rows[0] + head * bias_rows[1] + t * bias_rows[2]) * places + key];
      if (key < low[r] || key > high[r] || key >= end) s[r] = -INFINITY;
      reduced[r][item] = s[r];
    }
    for (int half_of = ITEMS / 2; half_of; half_of /= 2) {
      barrier(CLK_LOCAL_MEM_FENCE);
      if (item < half_of)
        for (int r = 0; r < ROWS; r++) reduced[r][item] = fmax(reduced[r][item], reduced[r][item + half_of]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int r = 0; r < ROWS; r++) {
      const float now = fmax(most[r], reduced[r][0]), less = most[r] == -INFINITY ? 0.0f : exp(most[r] - now);
      const float weight = s[r] == -INFINITY ? 0.0f : exp(s[r] - now);
      scores[r][item] = weight;
      sum[r] = fma(sum[r], less, weight);
      for (int c = 0; c < COLUMNS; c++) mixed[r][c] *= less;
      most[r] = now;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int j = 0; j < min(ITEMS, end - block); j++)
      for (int c = 0; c < COLUMNS; c++) {
        const int column = item + c * ITEMS;
        const float value = column < WIDTH ? LOAD_CACHE(v, (long)(block + j) * WIDTH + column) : 0.0f;
        for (int r = 0; r < ROWS; r++) mixed[r][c] = fma(scores[r][j], value, mixed[r][c]);
      }
  }
  for (int r = 0; r < ROWS; r++) reduced[r][item] = sum[r];
  for (int half_of = ITEMS / 2; half_of; half_of /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < half_of)
      for (int r = 0; r < ROWS; r++) reduced[r][item] += reduced[r][item + half_of];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int r = 0; r < rows; r++) {
    const int row = from + r, head = n % shared * group + row / tokens;
    const int at[4] = {text, head, row % tokens, 0};
    __global T* y = BASE_OF(T, out0) + element(view + VIEW, at);
    __global float* part = BASE_OF(float, parts) +
        ((((long)text * heads + head) * tokens + row % tokens) * SPLITS + get_group_id(1)) * (WIDTH + 2);
    const float total = reduced[r][0];
    for (int c = 0; c < COLUMNS; c++) {
      const int column = item + c * ITEMS;
      if (column >= WIDTH) continue;
      if (SPLITS > 1) part[column] = mixed[r][c];
      else STORE(y, column * view[VIEW + 4], total == 0.0f ? 0.0f : mixed[r][c] / total);
    }
    if (SPLITS > 1 && item == 0) {
      part[WIDTH] = most[r];
      part[WIDTH + 1] = total;
    }
  }
}

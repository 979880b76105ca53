// Makes one result of the parts that cached_attention_gpu has left.
//
// Grid: one work-item a text, head, token and column, n of them. parts: [batch * heads * tokens][SPLITS][WIDTH + 2], of each
// the mixture of its values, its largest score and the sum of its weights. table as in cached_attention_gpu.
// Error: (|difference of the parts' largest scores| + 8 + SPLITS) * 2^-24 relative to sum weight |v|.
#include "cache.clh"
#ifndef SPLITS
  #define SPLITS 2
#endif

__kernel void cached_attention_gpu_join(const int n, TENSOR(parts), TENSOR(out0), __global const int* table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  const int heads = table[0], tokens = table[2], row = id / WIDTH, column = id % WIDTH;
  const int at[4] = {row / (heads * tokens), row / tokens % heads, row % tokens, 0};
  __global const int* y = table + 11 + VIEW;
  __global const float* part = BASE_OF(const float, parts) + (long)row * SPLITS * (WIDTH + 2);
  float most = -INFINITY, sum = 0.0f, mixed = 0.0f;
  for (int i = 0; i < SPLITS; i++) most = fmax(most, part[i * (WIDTH + 2) + WIDTH]);
  for (int i = 0; i < SPLITS; i++, part += WIDTH + 2) {
    const float weight = part[WIDTH] == -INFINITY ? 0.0f : exp(part[WIDTH] - most);
    sum = fma(weight, part[WIDTH + 1], sum);
    mixed = fma(weight, part[column], mixed);
  }
  STORE(BASE_OF(T, out0) + element(y, at), column * y[4], sum == 0.0f ? 0.0f : mixed / sum);
}

// Convolution with groups, bias and post-operations for GPUs without local memory of their own: sums in registers alone.
//
// x, y, w, bias, the tables and their meaning as in convolution_gpu_vectors, with the groups behind the bias in table.
// Grid: one work-item for 4 outputs of 4 pixels that follow each other, n of them, the outputs first: neighbours read the
// same pixels, which lie in the cache, and weights that lie behind one another. RANK = 5: n, y, x, block, channel.
// Error: k * 2^-24 * sum |x w|, accumulated in float in the order of taps and channels, plus the post-operations'.
#define RANK 5
#include "vectors.clh"
#include "pixel_window.clh"

#define PIXELS 4

__kernel void convolution_gpu_direct(const int n, TENSOR(in0), TENSOR(in1), TENSOR(in2), TENSOR(out0),
                                     __global const int* table, __global const int* taps, POST_PARAMETERS) {
  const int id = get_global_id(0);
  if (id >= n) return;
  __global const int* y = table;
  __global const int* x = y + VIEW;
  __global const int* rest = x + VIEW;
  const int blocks = rest[0] / 4, outputs = rest[1], height = rest[4], width = rest[5];
  const int pixels = rest[3] * height * width, all = outputs * rest[14];
  const int o = id % (outputs / 4) * 4, p0 = id / (outputs / 4) % ((pixels + PIXELS - 1) / PIXELS) * PIXELS;
  const int group = id / (outputs / 4) / ((pixels + PIXELS - 1) / PIXELS), channel = group * outputs + o;
  __global const T* source = BASE_OF(const T, in0) + x[0] + group * blocks * x[4];
  __global const T* weights = BASE_OF(const T, in1) + channel;
  int top[PIXELS], left[PIXELS], base[PIXELS];
  float4 sums[PIXELS];
  for (int i = 0; i < PIXELS; i++) {
    pixel_window(p0 + i, pixels, x, rest, top + i, left + i, base + i);
    sums[i] = (float4)(0.0f);
  }
  for (int tap = 0; tap < rest[2]; tap++) {
    __global const int* t = taps + 3 * tap;
    int inside[PIXELS];
    for (int i = 0; i < PIXELS; i++)
      inside[i] = (uint)(top[i] + t[1]) < (uint)rest[6] && (uint)(left[i] + t[2]) < (uint)rest[7];
    for (int block = 0; block < blocks; block++) {
      __global const T* w = weights + (tap * blocks + block) * 4 * all;
      const float4 w0 = LOAD4(w, 0), w1 = LOAD4(w, all), w2 = LOAD4(w, 2 * all), w3 = LOAD4(w, 3 * all);
      for (int i = 0; i < PIXELS; i++) {
        const float4 v = inside[i] ? LOAD4(source, base[i] + t[0] + block * x[4]) : (float4)(0.0f);
        sums[i] = fma((float4)(v.x), w0, sums[i]);
        sums[i] = fma((float4)(v.y), w1, sums[i]);
        sums[i] = fma((float4)(v.z), w2, sums[i]);
        sums[i] = fma((float4)(v.w), w3, sums[i]);
      }
    }
  }
  float4 bias = (float4)(0.0f);
  if (rest[12] >= 0) bias = vector_operand(BASE_OF(const T, in2), rest[12] + channel * rest[13], rest[13]);
  int at[RANK];
  at[3] = channel / 4;
  at[4] = 0;
  for (int i = 0; i < PIXELS && p0 + i < pixels; i++) {
    at[0] = (p0 + i) / (height * width);
    at[1] = (p0 + i) / width % height;
    at[2] = (p0 + i) % width;
    const float4 sum = sums[i] + bias;
    STORE4(BASE_OF(T, out0), element(y, at), POST_ALL(sum, at));
  }
}

// y = add + scale * x, one work-item an element; ys and xs are byte offsets.
#ifndef T
  #define T float
#endif

__kernel void twice_test(__global char* x, const long xs, __global char* y, const long ys, const float scale,
                         const int add, __global const int* sizes) {
  const int i = get_global_id(0);
  if (i < sizes[0]) ((__global T*)(y + ys))[i] = add + scale * ((__global const T*)(x + xs))[i];
}

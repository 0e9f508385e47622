/* base/everywhere.h: marks functions that are compiled for both the host and a device. */
#ifndef BT_EVERYWHERE_H
#define BT_EVERYWHERE_H

#if defined __CUDACC__
#define BT_EVERYWHERE __host__ __device__
#else
#define BT_EVERYWHERE
#endif

#endif

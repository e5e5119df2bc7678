import { App, Stack } from 'aws-cdk-lib';

// `cdk bootstrap` prepares the environments of an app's stacks. This one has the account and region of the
// credentials, and needs no binaries.
new Stack(new App(), 'Any');
